package auth

import (
	"cmp"
	"encoding/json"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/input"
	"svc/projections"
)

type organization struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Slug      string            `json:"slug"`
	Logo      *string           `json:"logo"`
	CreatedAt openapi.Timestamp `json:"createdAt"`
	Metadata  *string           `json:"metadata"`
}

func newOrganization(w projections.Workspace) organization {
	return organization{ID: w.ID.String(), Name: w.Name, Slug: w.Slug, CreatedAt: openapi.FormatTime(w.CreatedAt)}
}

// A selector names an organization by id or slug. The zero selector is the active one.
type selector struct {
	OrganizationID   string `json:"organizationId"`
	OrganizationSlug string `json:"organizationSlug"`
}

func selectorFromQuery(r *request) selector {
	q := r.URL.Query()
	return selector{q.Get("organizationId"), q.Get("organizationSlug")}
}

// organizationID returns the id that w names, or zero if there is none. An organization with a given id may
// not exist.
func (s *Server) organizationID(r *request, w selector) (events.ID, error) {
	switch {
	case w.OrganizationID != "":
		id, err := events.ParseID(w.OrganizationID)
		if err != nil {
			return events.ID{}, nil // text that is not an id names nothing
		}
		return id, nil
	case w.OrganizationSlug != "":
		_, id, err := s.Keys.Holder(r.Context(), events.SlugKey(w.OrganizationSlug))
		return id, err
	case r.session.Active != nil:
		return *r.session.Active, nil
	}
	return events.ID{}, nil
}

// membership returns the caller's membership in the organization that w names. It fails with none if w is
// zero and no organization is active, and with foreign if the caller is not a member or the organization
// does not exist.
func (s *Server) membership(r *request, w selector, none, foreign error) (projections.Membership, error) {
	id, err := s.organizationID(r, w)
	if err != nil {
		return projections.Membership{}, err
	}
	if id.IsZero() && w == (selector{}) {
		return projections.Membership{}, none
	}
	m, ok, err := s.Members.Membership(r.Context(), id, r.session.User)
	switch {
	case err != nil:
		return m, err
	case !ok:
		return m, foreign
	}
	return m, nil
}

func (s *Server) organization(r *request, id events.ID) (organization, error) {
	w, ok, err := s.Workspaces.Get(r.Context(), id)
	switch {
	case err != nil:
		return organization{}, err
	case !ok:
		return organization{}, errNoOrganization
	}
	return newOrganization(w), nil
}

// unsupported has the fields of an organization that this service does not store. Non-empty ones are
// refused instead of being dropped silently.
type unsupported struct {
	Logo     *string                    `json:"logo"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

func (u unsupported) refuse(where string) error {
	switch {
	case u.Logo != nil && *u.Logo != "":
		return errValidation(where+"logo", "Invalid input: organizations have no logo here")
	case len(u.Metadata) > 0:
		return errValidation(where+"metadata", "Invalid input: organizations have no metadata here")
	}
	return nil
}

func (s *Server) createOrganization(r *request) (any, error) {
	in, err := readBody[struct {
		Name string `json:"name"`
		Slug string `json:"slug"`
		Keep bool   `json:"keepCurrentActiveOrganization"`
		unsupported
	}](r)
	if err != nil {
		return nil, err
	}
	if err := in.refuse(""); err != nil {
		return nil, err
	}
	if err := requireField("name", in.Name); err != nil {
		return nil, err
	}
	if err := requireField("slug", in.Slug); err != nil {
		return nil, err
	}
	id, owner := events.NewID(s.Now()), events.NewID(s.Now())
	err = r.recordPosition(s.Commands.CreateWorkspace(r.Context(), commands.CreateWorkspace{
		Meta: r.meta(id), Member: owner, Email: r.session.Email, Person: r.session.Name, Name: in.Name, Slug: in.Slug,
	}))
	if err != nil {
		return nil, asValidation(translate(err, map[string]*fault.Fault{aggregates.ErrSlugTaken.Code: errSlugExists}))
	}
	if !in.Keep {
		if _, err := s.Sessions.SetActive(r.Context(), r.session, id); err != nil {
			return nil, err
		}
	}
	return s.withMembers(r, id)
}

// withMembers returns a new organization with its only member, the creator.
func (s *Server) withMembers(r *request, id events.ID) (any, error) {
	o, err := s.organization(r, id)
	if err != nil {
		return nil, err
	}
	members, _, err := s.memberPage(r, projections.MemberQuery{Workspace: id, Limit: 1})
	if err != nil {
		return nil, err
	}
	return struct {
		organization
		Metadata map[string]any `json:"metadata"` // an object here, a string elsewhere
		Members  []member       `json:"members"`
	}{o, map[string]any{}, members}, nil
}

// asValidation translates a command's refusal of a field into a VALIDATION_ERROR.
func asValidation(err error) error {
	f := fault.As(err)
	if f == nil || f.Kind != fault.Invalid {
		return err
	}
	for field, texts := range f.Details {
		if list, ok := texts.([]string); ok && len(list) > 0 {
			return errValidation(field, list[0])
		}
	}
	return err
}

func (s *Server) checkSlug(r *request) (any, error) {
	in, err := readBody[struct {
		Slug string `json:"slug"`
	}](r)
	if err != nil {
		return nil, err
	}
	if err := requireField("slug", in.Slug); err != nil {
		return nil, err
	}
	if err := input.Slug.Check("slug", in.Slug); err != nil { // as create does
		return nil, asValidation(err)
	}
	_, holder, err := s.Keys.Holder(r.Context(), events.SlugKey(in.Slug))
	switch {
	case err != nil:
		return nil, err
	case !holder.IsZero():
		return nil, errSlugTaken
	}
	return map[string]bool{"status": true}, nil
}

// listOrganizations lists the caller's organizations and, if the query asks for deleted ones, those that they can restore.
func (s *Server) listOrganizations(r *request) (any, error) {
	found, err := s.Workspaces.ForMember(r.Context(), r.session.User, maxOfPerson)
	if err != nil {
		return nil, err
	}
	list := []any{}
	for _, m := range found {
		list = append(list, ownOrganization{newOrganization(m.Workspace), roleName(m.Role), openapi.FormatOptionalTime(m.LastActive)})
	}
	if r.URL.Query().Get("deleted") != "true" {
		return list, nil
	}
	deleted, err := s.Workspaces.Restorable(r.Context(), r.session.User, maxOfPerson)
	if err != nil {
		return nil, err
	}
	var by []string
	for _, w := range deleted {
		by = append(by, w.DeletedBy)
	}
	names, err := s.Users.Names(r.Context(), by)
	if err != nil {
		return nil, err
	}
	for _, w := range deleted {
		list = append(list, deletedOrganization{
			w.ID.String(), w.Name, w.Slug, openapi.FormatTime(w.DeletedAt), w.DeletedBy, names[w.DeletedBy], openapi.FormatTime(w.PurgeAt),
		})
	}
	return list, nil
}

// An ownOrganization tells besides what Better Auth does which role the caller has, and when they last used the workspace.
type ownOrganization struct {
	organization
	Role         string             `json:"role"`
	LastActiveAt *openapi.Timestamp `json:"lastActiveAt"`
}

// A deletedOrganization can be restored by its Owners until PurgeAt.
type deletedOrganization struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Slug        string            `json:"slug"`
	DeletedAt   openapi.Timestamp `json:"deletedAt"`
	DeletedBy   string            `json:"deletedBy"`
	DeleterName string            `json:"deletedByName,omitempty"` // of the person who has this address now
	PurgeAt     openapi.Timestamp `json:"purgeAt"`
}

// setActive sets the session's active workspace, which requests use unless they name another.
func (s *Server) setActive(r *request) (any, error) {
	in, err := readBody[struct {
		OrganizationID   *string `json:"organizationId"`
		OrganizationSlug string  `json:"organizationSlug"`
	}](r)
	if err != nil {
		return nil, err
	}
	if in.OrganizationID == nil && in.OrganizationSlug == "" {
		if err := s.Sessions.UnsetActive(r.Context(), r.session); err != nil {
			return nil, err
		}
		s.resendCookie(r)
		return nil, nil
	}
	w := selector{OrganizationSlug: in.OrganizationSlug}
	if in.OrganizationID != nil {
		w.OrganizationID = *in.OrganizationID
	}
	id, err := s.organizationID(r, w)
	switch {
	case err != nil:
		return nil, err
	case id.IsZero() && w.OrganizationID == "":
		return nil, errNoOrganization
	}
	ok, err := s.Sessions.SetActive(r.Context(), r.session, id)
	if err == nil && !ok {
		if err = s.Sessions.UnsetActive(r.Context(), r.session); err == nil {
			err = errNotMemberOf
		}
	}
	if err != nil {
		return nil, err
	}
	s.resendCookie(r)
	return s.organization(r, id)
}

// resendCookie sets the cookie again when the active workspace was set, as Better Auth does: clients
// that cache the session in a cookie of their own wait for it.
func (s *Server) resendCookie(r *request) {
	r.w.Header().Del("Set-Cookie") // set already if the session was extended
	s.Sessions.RenewCookie(r.w, r.Request, r.session)
}

func (s *Server) getOrganization(r *request) (any, error) {
	m, none, err := s.queriedMembership(r)
	if err != nil || none {
		return nil, err
	}
	return s.organization(r, m.Workspace)
}

// getFullOrganization returns null if the query names no organization and none is active.
// Its invitations are listed only to callers that may send them: those of Owners to Owners alone.
func (s *Server) getFullOrganization(r *request) (any, error) {
	m, none, err := s.queriedMembership(r)
	if err != nil || none {
		return nil, err
	}
	o, err := s.organization(r, m.Workspace)
	if err != nil {
		return nil, err
	}
	members, _, err := s.memberPage(r, projections.MemberQuery{Workspace: m.Workspace,
		Limit: r.queryInt("membersLimit", 100, projections.MaxMembersPage)})
	if err != nil {
		return nil, err
	}
	invitations := []invitation{}
	if m.Role.May(events.ManageMembers) {
		invitations, err = s.pending(r, m.Workspace, func(i projections.Invitation) bool {
			return m.Role.MayInvite(i.Role)
		})
		if err != nil {
			return nil, err
		}
	}
	return struct {
		organization
		Invitations []invitation `json:"invitations"`
		Members     []member     `json:"members"`
	}{o, invitations, members}, nil
}

// queriedMembership returns the caller's membership in the organization that the query names. none reports
// that the query names none and no organization is active.
func (s *Server) queriedMembership(r *request) (m projections.Membership, none bool, err error) {
	w := selectorFromQuery(r)
	id, err := s.organizationID(r, w)
	switch {
	case err != nil:
		return m, false, err
	case id.IsZero() && w == (selector{}):
		return m, true, nil
	case id.IsZero():
		return m, false, errNoOrganization
	}
	if _, ok, err := s.Workspaces.Get(r.Context(), id); err != nil || !ok {
		return m, false, cmp.Or[error](err, errNoOrganization)
	}
	m, ok, err := s.Members.Membership(r.Context(), id, r.session.User)
	if err == nil && !ok {
		err = errNotMemberOf
	}
	return m, false, err
}

func (s *Server) updateOrganization(r *request) (any, error) {
	in, err := readBody[struct {
		OrganizationID string `json:"organizationId"`
		Data           struct {
			Name *string `json:"name"`
			Slug *string `json:"slug"`
			unsupported
		} `json:"data"`
	}](r)
	if err != nil {
		return nil, err
	}
	if err := in.Data.refuse("data."); err != nil {
		return nil, err
	}
	m, err := s.membership(r, selector{OrganizationID: in.OrganizationID}, errNoOrganization, errNotMember)
	if err != nil {
		return nil, err
	}
	err = r.recordPosition(s.Commands.RenameWorkspace(r.Context(),
		commands.RenameWorkspace{Meta: r.meta(m.Workspace), Name: in.Data.Name, Slug: in.Data.Slug}))
	if err != nil {
		return nil, asValidation(translate(err, map[string]*fault.Fault{
			aggregates.ErrSlugTaken.Code: errSlugTaken, aggregates.ErrRoleRequired.Code: errUpdateDenied,
			fault.ErrTenantNotFound.Code: errNotMember,
		}))
	}
	o, err := s.organization(r, m.Workspace)
	return struct {
		organization
		Metadata map[string]any `json:"metadata"`
	}{o, map[string]any{}}, err
}

// deleteOrganization always fails: a deletion names the workspace, which requests to this route do not.
func (s *Server) deleteOrganization(*request) (any, error) { return nil, errDeletionDisabled }
