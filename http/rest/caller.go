package rest

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/input"
	"svc/projections"
	"svc/sessions"
)

// Why a caller is not let in.
var (
	errPrincipalRefused = fault.New(fault.Denied, "service_principal_refused",
		"Service accounts cannot call this route; it needs a person's session.")
	errCrossOrigin = fault.New(fault.Denied, "cross_origin_refused", "This request came from another site.")
)

// A caller is who makes a request, and in which workspace. The caller of a
// public route is the zero caller.
type caller struct {
	workspace events.ID
	slug      string
	person    *person
	token     *projections.ServiceToken
	envelope  events.Envelope

	// What they showed: one of them.
	cookie      string
	fingerprint events.Fingerprint

	target string   // what the path of the request names, as it was sent
	slots  []func() // that are given back when the answer has been written
}

// giveBack gives back every slot that was taken for the request.
func (c *caller) giveBack() {
	for _, release := range c.slots {
		release()
	}
	c.slots = nil
}

// A person is a caller who signed in.
type person struct {
	user         events.ID
	name         string
	active       *events.ID              // the workspace that requests go to unless they name one
	current      *projections.Membership // in that one; nil if they are not in it
	member       events.ID
	role         events.Role
	approveLoops bool
}

// meta begins a command of the caller's.
func (c *caller) meta() commands.Meta {
	return commands.Meta{Envelope: c.envelope, Workspace: c.workspace}
}

// metaOnce begins one that happens once if the request has a key.
func (c *caller) metaOnce(once Once) commands.Meta {
	m := c.meta()
	m.Key = once.Key
	return m
}

// authenticate says who makes the request. An Authorization header is judged
// alone, whatever cookies come with it.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request, row route) (*caller, error) {
	if values, ok := r.Header["Authorization"]; ok {
		return s.authenticateToken(r, values)
	}
	cookie, err := r.Cookie(s.sessions.CookieName())
	if err != nil {
		return nil, fault.ErrUnauthenticated
	}
	session, renewed, ok, err := s.sessions.Find(r.Context(), cookie.Value)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fault.ErrUnauthenticated
	case s.crossSite(r, row):
		return nil, errCrossOrigin
	}
	if renewed {
		http.SetCookie(w, s.sessions.Cookie(session))
	}
	c := &caller{person: &person{user: session.User, name: session.Name, active: session.Active, current: currentOf(session)},
		envelope: envelopeOf(r), cookie: cookie.Value}
	c.envelope.Actor = events.Actor{Type: events.ByUser, ID: session.User, Name: session.Email}
	return c, nil
}

// currentOf returns what a person is in the workspace that is active in their session,
// nil if they are not in it.
func currentOf(session sessions.Session) *projections.Membership {
	m := session.Member
	if m == nil {
		return nil
	}
	return &projections.Membership{
		Workspace: *session.Active, User: session.User, Slug: m.Slug, Member: m.ID, Role: m.Role, ApproveLoops: m.ApproveLoops,
	}
}

// crossSite reports whether a browser says that another site asks for what it
// may not: whatever causes an event, by whichever method.
func (s *Server) crossSite(r *http.Request, row route) bool {
	judged := *r
	if row.intent != nil {
		judged.Method = http.MethodPost
	}
	return s.sameSite.Check(&judged) != nil
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
	t, ok, err := s.tokens.Find(r.Context(), token.Fingerprint(), s.views.ServiceAccounts.Tokens)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, aggregates.ErrTokenInvalid
	case t.Status != projections.TokenCurrent:
		s.noteStale(t, envelopeOf(r))
		return nil, aggregates.ErrTokenInvalid
	}
	c := &caller{workspace: t.Workspace, slug: t.Slug, token: &t, envelope: envelopeOf(r), fingerprint: token.Fingerprint()}
	c.envelope.Actor = events.Actor{Type: events.ByService, ID: t.Account, Name: "service:" + t.Name}
	c.envelope.TokenTail = t.Tail
	return c, nil
}

// enter leads the caller into the workspace that X-Svc-Tenant names or, if it
// names none, into their own. A token has only its own.
func (s *Server) enter(ctx context.Context, c *caller, tenant string) error {
	if c.token != nil {
		if tenant != "" && !names(tenant, c.workspace, c.slug) {
			return fault.ErrTenantNotFound
		}
		s.lastSeen.ServiceAccount(c.workspace, c.token.Account, s.now())
		return nil
	}
	m, ok, err := s.membership(ctx, c.person, tenant)
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.ErrTenantNotFound
	}
	c.workspace, c.slug = m.Workspace, m.Slug
	c.person.member, c.person.role = m.Member, m.Role
	c.person.approveLoops = events.MayApproveLoops(m.Role, m.ApproveLoops)
	s.lastSeen.Member(c.workspace, c.person.user, s.now())
	return nil
}

// membership returns what a person is in the workspace that they name. Of the one that
// is active in their session that was read with it.
func (s *Server) membership(ctx context.Context, p *person, tenant string) (m projections.Membership, ok bool, err error) {
	if p.current != nil && (tenant == "" || names(tenant, p.current.Workspace, p.current.Slug)) {
		return *p.current, true, nil
	}
	id, err := s.tenant(ctx, p, tenant)
	if err != nil {
		return m, false, err
	}
	return s.memberships.Find(ctx, projections.Ref{Workspace: id, ID: p.user}, s.views.Members.Memberships)
}

// tenant returns the workspace that a person names, by id or slug. It may not
// exist.
func (s *Server) tenant(ctx context.Context, p *person, name string) (events.ID, error) {
	if name == "" && p.active != nil {
		return *p.active, nil
	}
	if id, err := events.ParseID(name); err == nil {
		return id, nil
	}
	_, id, err := s.keys.Holder(ctx, events.SlugKey(input.Lower(name)))
	return id, err
}

func names(tenant string, id events.ID, slug string) bool {
	tenant = input.Lower(tenant)
	return tenant == slug || tenant == id.String()
}

// may refuses a caller whose role or scope does not do.
func (c *caller) may(g guard) error {
	switch {
	case c.token != nil && !slices.Contains(c.token.Scopes, g.scope):
		return aggregates.ErrScopeMissing(g.scope)
	case c.person != nil && g.right != 0 && !c.person.role.May(g.right):
		return aggregates.ErrRoleRequired.With("required", g.right.Roles())
	}
	return nil
}

func envelopeOf(r *http.Request) events.Envelope {
	return events.Envelope{
		Origin: events.FromAPI, IP: middleware.Address(r), RequestID: middleware.RequestID(r.Context()), UserAgent: middleware.UserAgent(r),
	}
}
