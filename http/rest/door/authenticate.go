package door

import (
	"context"
	"net/http"
	"strings"

	"svc/aggregates"
	"svc/commands/bearer"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/input"
	"svc/projections"
	"svc/sessions"
)

// authenticate returns the caller of a request. If there is an Authorization header, cookies are
// ignored.
func (d *Door) authenticate(w http.ResponseWriter, r *http.Request, row Route) (*Caller, error) {
	if values, ok := r.Header["Authorization"]; ok {
		return d.authenticateToken(r, values)
	}
	foundAt := d.Now()
	session, renewed, ok, err := d.Sessions.FindIn(r)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fault.ErrUnauthenticated
	}
	if err := d.checkSite(r, row); err != nil {
		return nil, err
	}
	if renewed {
		d.Sessions.RenewCookie(w, r, session)
	}
	c := &Caller{Person: &Person{User: session.User, Name: session.Name, active: session.Active, current: currentOf(session)},
		Envelope: envelopeOf(r), FoundAt: foundAt, session: session, userAgent: r.UserAgent()}
	c.Envelope.Actor = events.Actor{Type: events.ByUser, ID: session.User, Name: session.Email}
	if middleware.FromUI(r) {
		c.Envelope.Origin = events.FromUI
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
func (d *Door) checkSite(r *http.Request, row Route) error {
	checked := *r
	if row.Intent != nil {
		checked.Method = http.MethodPost
	}
	return d.sameSite.Check(&checked)
}

func (d *Door) authenticateToken(r *http.Request, header []string) (*Caller, error) {
	if len(header) != 1 {
		return nil, fault.ErrUnauthenticated
	}
	scheme, text, _ := strings.Cut(header[0], " ")
	text = strings.TrimSpace(text)
	if !strings.EqualFold(scheme, "Bearer") || text == "" || strings.ContainsAny(text, " \t,") {
		return nil, fault.ErrUnauthenticated
	}
	token, ok := bearer.ParseServiceToken(text)
	if !ok {
		return nil, aggregates.ErrTokenInvalid
	}
	foundAt := d.Now()
	t, ok, err := d.tokens.Find(r.Context(), token.Fingerprint(), d.ServiceAccounts.Tokens)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, aggregates.ErrTokenInvalid
	case t.Status != projections.TokenCurrent:
		e := envelopeOf(r)
		e.UserAgent = middleware.UserAgent(r)
		d.stale.record(t, e, d.Now())
		return nil, aggregates.ErrTokenInvalid
	}
	c := &Caller{Workspace: t.Workspace, Slug: t.Slug, Token: &t, Envelope: envelopeOf(r), FoundAt: foundAt,
		Fingerprint: token.Fingerprint(), userAgent: r.UserAgent()}
	c.Envelope.Actor = events.Actor{Type: events.ByService, ID: t.Account, Name: "service:" + t.Name}
	c.Envelope.TokenTail = t.Tail
	return c, nil
}

// enterWorkspace sets the caller's workspace: the one that tenant, the X-Svc-Tenant header, names
// or, if it is empty, the session's active one. A token has only its own workspace.
func (d *Door) enterWorkspace(ctx context.Context, c *Caller, tenant string) error {
	if c.Token != nil {
		if c.Slug == "" || tenant != "" && !namesWorkspace(tenant, c.Workspace, c.Slug) {
			return fault.ErrTenantNotFound
		}
		d.LastSeen.ServiceAccount(c.Workspace, c.Token.Account, d.Now())
		return nil
	}
	m, ok, err := d.membership(ctx, c, tenant)
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.ErrTenantNotFound
	}
	c.Workspace, c.Slug = m.Workspace, m.WorkspaceSlug
	c.Person.Member, c.Person.Role = m.Member, m.Role
	c.Person.ApproveLoops = events.MayApproveLoops(m.Role, m.ApproveLoops)
	d.LastSeen.Member(c.Workspace, c.Person.User, d.Now())
	return nil
}

// membership returns the person's membership in the workspace that tenant names. That in the active
// workspace was read with the session.
func (d *Door) membership(ctx context.Context, c *Caller, tenant string) (m projections.Membership, ok bool, err error) {
	p := c.Person
	if !c.deleted && p.current != nil && (tenant == "" || namesWorkspace(tenant, p.current.Workspace, p.current.WorkspaceSlug)) {
		return *p.current, true, nil
	}
	id, err := d.tenantID(ctx, p, tenant)
	if err != nil {
		return m, false, err
	}
	return d.membershipIn(ctx, c, id)
}

// tenantID returns the id of the workspace that name names, by id or slug. The workspace may not
// exist.
func (d *Door) tenantID(ctx context.Context, p *Person, name string) (events.ID, error) {
	if name == "" && p.active != nil {
		return *p.active, nil
	}
	if id, err := events.ParseID(name); err == nil {
		return id, nil
	}
	_, id, err := d.Keys.Holder(ctx, events.SlugKey(input.Lower(name)))
	return id, err
}

func namesWorkspace(tenant string, id events.ID, slug string) bool {
	tenant = input.Lower(tenant)
	return tenant == slug || tenant == id.String()
}

func envelopeOf(r *http.Request) events.Envelope {
	return events.Envelope{
		Origin: events.FromAPI, IP: middleware.Address(r), RequestID: middleware.RequestID(r.Context()),
	}
}
