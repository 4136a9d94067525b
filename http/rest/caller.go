package rest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/quota"
	"svc/input"
	"svc/projections"
	"svc/sessions"
)

var errPrincipalRefused = fault.New(fault.Denied, "service_principal_refused",
	"Service accounts cannot call this route; it needs a person's session.")

// A caller is the authenticated sender of a request and the workspace that it acts in. Exactly one
// of person and token is set.
type caller struct {
	workspace events.ID
	slug      string
	deleted   bool // the workspace is a deleted one
	person    *person
	token     *projections.ServiceToken
	envelope  events.Envelope
	foundAt   time.Time // when the look-up of the credential began; see [Server.recheckIfStale]

	position  int64     // that the request requires of the views it reads; 0 if none
	waitUntil time.Time // how long it waits for position

	// The credential: a session or the fingerprint of a token.
	session     sessions.Session
	fingerprint events.Fingerprint

	target string // the id in the request's path, as sent
	slots  []*quota.Slot
}

// releaseSlots releases every slot that the request holds. It is called once the answer is written.
func (c *caller) releaseSlots() {
	for _, slot := range c.slots {
		slot.Release()
	}
	c.slots = nil
}

// releaseWorkspace makes the slots of a request count no longer against the workspace. It is called
// before the answer is written, so that a client that does not read holds up nobody else.
func (c *caller) releaseWorkspace() {
	for _, slot := range c.slots {
		slot.ReleaseWorkspace()
	}
}

// A person is a caller with a session.
type person struct {
	user         events.ID
	name         string
	active       *events.ID              // the session's active workspace, used if a request names none
	current      *projections.Membership // in the active workspace; nil if they are not a member
	member       events.ID
	role         events.Role
	approveLoops bool
}

// meta returns the metadata of a command of the caller.
func (c *caller) meta() commands.Meta {
	return commands.Meta{Envelope: c.envelope, Workspace: c.workspace}
}

// metaWithKey returns metadata with the request's idempotency key, if it has one.
func (c *caller) metaWithKey(key Idempotency) commands.Meta {
	m := c.meta()
	m.Key = key.Key
	return m
}

// authenticate returns the caller of a request. If there is an Authorization header, cookies are
// ignored.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request, row route) (*caller, error) {
	if values, ok := r.Header["Authorization"]; ok {
		return s.authenticateToken(r, values)
	}
	foundAt := s.Now()
	session, renewed, ok, err := s.Sessions.FindIn(r)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fault.ErrUnauthenticated
	}
	if err := s.checkSite(r, row); err != nil {
		return nil, err
	}
	if renewed {
		s.Sessions.RenewCookie(w, r, session)
	}
	c := &caller{person: &person{user: session.User, name: session.Name, active: session.Active, current: currentOf(session)},
		envelope: envelopeOf(r), foundAt: foundAt, session: session}
	c.envelope.Actor = events.Actor{Type: events.ByUser, ID: session.User, Name: session.Email}
	if middleware.FromUI(r) {
		c.envelope.Origin = events.FromUI
	}
	return c, nil
}

// currentOf returns the person's membership in the session's active workspace, nil if they are not
// a member.
func currentOf(session sessions.Session) *projections.Membership {
	m := session.Member
	if m == nil {
		return nil
	}
	return &projections.Membership{
		Workspace: *session.Active, User: session.User, WorkspaceSlug: m.Slug, Member: m.ID, Role: m.Role, ApproveLoops: m.ApproveLoops,
	}
}

// checkSite refuses a request that a browser sent for another site, which may not cause events. A GET
// that causes one is checked like a POST.
func (s *Server) checkSite(r *http.Request, row route) error {
	checked := *r
	if row.intent != nil {
		checked.Method = http.MethodPost
	}
	return s.sameSite.Check(&checked)
}

func (s *Server) authenticateToken(r *http.Request, header []string) (*caller, error) {
	if len(header) != 1 {
		return nil, fault.ErrUnauthenticated
	}
	scheme, text, _ := strings.Cut(header[0], " ")
	text = strings.TrimSpace(text)
	if !strings.EqualFold(scheme, "Bearer") || text == "" || strings.ContainsAny(text, " \t,") {
		return nil, fault.ErrUnauthenticated
	}
	token, ok := commands.ParseServiceToken(text)
	if !ok {
		return nil, aggregates.ErrTokenInvalid
	}
	foundAt := s.Now()
	t, ok, err := s.tokens.Find(r.Context(), token.Fingerprint(), s.Primary.ServiceAccounts.Tokens)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, aggregates.ErrTokenInvalid
	case t.Status != projections.TokenCurrent:
		s.recordStaleUse(t, envelopeOf(r))
		return nil, aggregates.ErrTokenInvalid
	}
	c := &caller{workspace: t.Workspace, slug: t.Slug, token: &t, envelope: envelopeOf(r), foundAt: foundAt,
		fingerprint: token.Fingerprint()}
	c.envelope.Actor = events.Actor{Type: events.ByService, ID: t.Account, Name: "service:" + t.Name}
	c.envelope.TokenTail = t.Tail
	return c, nil
}

// enterWorkspace sets the caller's workspace: the one that tenant, the X-Svc-Tenant header, names
// or, if it is empty, the session's active one. A token has only its own workspace.
func (s *Server) enterWorkspace(ctx context.Context, c *caller, tenant string) error {
	if c.token != nil {
		if c.slug == "" || tenant != "" && !namesWorkspace(tenant, c.workspace, c.slug) {
			return fault.ErrTenantNotFound
		}
		s.LastSeen.ServiceAccount(c.workspace, c.token.Account, s.Now())
		return nil
	}
	m, ok, err := s.membership(ctx, c, tenant)
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.ErrTenantNotFound
	}
	c.workspace, c.slug = m.Workspace, m.WorkspaceSlug
	c.person.member, c.person.role = m.Member, m.Role
	c.person.approveLoops = events.MayApproveLoops(m.Role, m.ApproveLoops)
	s.LastSeen.Member(c.workspace, c.person.user, s.Now())
	return nil
}

// membership returns the person's membership in the workspace that tenant names. That in the active
// workspace was read with the session.
func (s *Server) membership(ctx context.Context, c *caller, tenant string) (m projections.Membership, ok bool, err error) {
	p := c.person
	if !c.deleted && p.current != nil && (tenant == "" || namesWorkspace(tenant, p.current.Workspace, p.current.WorkspaceSlug)) {
		return *p.current, true, nil
	}
	id, err := s.tenantID(ctx, p, tenant)
	if err != nil {
		return m, false, err
	}
	return s.membershipIn(ctx, c, id)
}

// membershipIn returns the caller's membership in a workspace.
func (s *Server) membershipIn(ctx context.Context, c *caller, workspace events.ID) (m projections.Membership, ok bool, err error) {
	if c.deleted {
		return s.Primary.Workspaces.DeletedMembership(ctx, workspace, c.person.user)
	}
	return s.memberships.Find(ctx, projections.Ref{Workspace: workspace, ID: c.person.user}, s.Primary.Members.Memberships)
}

// tenantID returns the id of the workspace that name names, by id or slug. The workspace may not
// exist.
func (s *Server) tenantID(ctx context.Context, p *person, name string) (events.ID, error) {
	if name == "" && p.active != nil {
		return *p.active, nil
	}
	if id, err := events.ParseID(name); err == nil {
		return id, nil
	}
	_, id, err := s.Keys.Holder(ctx, events.SlugKey(input.Lower(name)))
	return id, err
}

func namesWorkspace(tenant string, id events.ID, slug string) bool {
	tenant = input.Lower(tenant)
	return tenant == slug || tenant == id.String()
}

// may refuses a caller without the role or scope that g requires.
func (c *caller) may(g guard) error {
	switch {
	case c.token != nil && !slices.Contains(c.token.Scopes, g.scope):
		return aggregates.ErrScopeMissing(g.scope)
	case c.person != nil && !g.members && !c.person.role.May(g.right) && !(g.own && c.names(c.person.member)):
		return aggregates.RoleRequired(g.right)
	}
	return nil
}

// names reports whether the request's path names id.
func (c *caller) names(id events.ID) bool {
	target, err := events.ParseID(c.target)
	return err == nil && target == id
}

func envelopeOf(r *http.Request) events.Envelope {
	return events.Envelope{
		Origin: events.FromAPI, IP: middleware.Address(r), RequestID: middleware.RequestID(r.Context()), UserAgent: middleware.UserAgent(r),
	}
}
