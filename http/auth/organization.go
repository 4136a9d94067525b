package auth

import (
	"encoding/json"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/input"
	"svc/projections"
)

type organization struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Slug      string  `json:"slug"`
	Logo      *string `json:"logo"`
	CreatedAt string  `json:"createdAt"`
	Metadata  *string `json:"metadata"`
}

func newOrganization(w projections.Workspace) organization {
	return organization{ID: w.ID.String(), Name: w.Name, Slug: w.Slug, CreatedAt: at(w.CreatedAt)}
}

// which names an organization in a query or a body. Empty, it is the active one.
type which struct {
	OrganizationID   string `json:"organizationId"`
	OrganizationSlug string `json:"organizationSlug"`
}

func whichOf(v *visit) which {
	q := v.URL.Query()
	return which{q.Get("organizationId"), q.Get("organizationSlug")}
}

// find returns the id that w names: zero if it names nothing, or nothing that exists.
func (s *Server) find(v *visit, w which) (events.ID, error) {
	switch {
	case w.OrganizationID != "":
		id, err := events.ParseID(w.OrganizationID)
		if err != nil {
			return events.ID{}, nil // what is no id names nothing
		}
		return id, nil
	case w.OrganizationSlug != "":
		_, id, err := s.keys.Holder(v.Context(), events.SlugKey(w.OrganizationSlug))
		return id, err
	case v.session.Active != nil:
		return *v.session.Active, nil
	}
	return events.ID{}, nil
}

// membership returns the caller's place in the organization that w names. It
// refuses with none if w names nothing and nothing is active, and with foreign
// if the caller has no place there, or it does not exist.
func (s *Server) membership(v *visit, w which, none, foreign error) (projections.Membership, error) {
	id, err := s.find(v, w)
	if err != nil {
		return projections.Membership{}, err
	}
	if id.IsZero() && w == (which{}) {
		return projections.Membership{}, none
	}
	m, ok, err := s.members.Membership(v.Context(), id, v.session.User)
	switch {
	case err != nil:
		return m, err
	case !ok:
		return m, foreign
	}
	return m, nil
}

func (s *Server) organization(v *visit, id events.ID) (organization, error) {
	w, ok, err := s.workspaces.Get(v.Context(), id)
	switch {
	case err != nil:
		return organization{}, err
	case !ok:
		return organization{}, errNoOrganization
	}
	return newOrganization(w), nil
}

// unkept are fields of an organization that this service does not keep. What would
// be lost behind a 200 is refused; to send none, or nothing in them, loses nothing.
type unkept struct {
	Logo     *string                    `json:"logo"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

func (u unkept) refuse(where string) error {
	switch {
	case u.Logo != nil && *u.Logo != "":
		return errValidation(where+"logo", "Invalid input: organizations have no logo here")
	case len(u.Metadata) > 0:
		return errValidation(where+"metadata", "Invalid input: organizations have no metadata here")
	}
	return nil
}

func (s *Server) createOrganization(v *visit) (any, error) {
	in, err := read[struct {
		Name string `json:"name"`
		Slug string `json:"slug"`
		Keep bool   `json:"keepCurrentActiveOrganization"`
		unkept
	}](v)
	if err != nil {
		return nil, err
	}
	if err := in.refuse(""); err != nil {
		return nil, err
	}
	if err := need("name", in.Name); err != nil {
		return nil, err
	}
	if err := need("slug", in.Slug); err != nil {
		return nil, err
	}
	id, owner := events.NewID(s.now()), events.NewID(s.now())
	err = v.did(s.commands.CreateWorkspace(v.Context(), commands.CreateWorkspace{
		Meta: v.meta(id), Member: owner, Email: v.session.Email, Person: v.session.Name, Name: in.Name, Slug: in.Slug,
	}))
	if err != nil {
		return nil, asValidation(translated(err, map[string]*fault.Fault{aggregates.ErrSlugTaken.Code: errSlugExists}))
	}
	if !in.Keep {
		if err := s.sessions.SetActive(v.Context(), v.session, &id); err != nil {
			return nil, err
		}
	}
	return s.withMembers(v, id)
}

// withMembers answers a new organization with its members, the creator.
func (s *Server) withMembers(v *visit, id events.ID) (any, error) {
	o, err := s.organization(v, id)
	if err != nil {
		return nil, err
	}
	members, _, err := s.memberPage(v, projections.MemberQuery{Workspace: id, Limit: 1})
	if err != nil {
		return nil, err
	}
	return struct {
		organization
		Metadata map[string]any `json:"metadata"` // an object here, a string elsewhere
		Members  []member       `json:"members"`
	}{o, map[string]any{}, members}, nil
}

// asValidation answers a field that the commands refuse as this surface does.
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

func (s *Server) checkSlug(v *visit) (any, error) {
	in, err := read[struct {
		Slug string `json:"slug"`
	}](v)
	if err != nil {
		return nil, err
	}
	if err := need("slug", in.Slug); err != nil {
		return nil, err
	}
	if err := input.Slug.Check("slug", in.Slug); err != nil { // what create would say
		return nil, asValidation(err)
	}
	_, holder, err := s.keys.Holder(v.Context(), events.SlugKey(in.Slug))
	switch {
	case err != nil:
		return nil, err
	case !holder.IsZero():
		return nil, errSlugTaken
	}
	return map[string]bool{"status": true}, nil
}

func (s *Server) listOrganizations(v *visit) (any, error) {
	found, err := s.workspaces.ForMember(v.Context(), v.session.User, maxOfPerson)
	if err != nil {
		return nil, err
	}
	list := []organization{}
	for _, w := range found {
		list = append(list, newOrganization(w))
	}
	return list, nil
}

// setActive chooses the workspace that requests go to unless they name one.
func (s *Server) setActive(v *visit) (any, error) {
	in, err := read[struct {
		OrganizationID   *string `json:"organizationId"`
		OrganizationSlug string  `json:"organizationSlug"`
	}](v)
	if err != nil {
		return nil, err
	}
	if in.OrganizationID == nil && in.OrganizationSlug == "" {
		return nil, s.activate(v, nil)
	}
	w := which{OrganizationSlug: in.OrganizationSlug}
	if in.OrganizationID != nil {
		w.OrganizationID = *in.OrganizationID
	}
	id, err := s.find(v, w)
	switch {
	case err != nil:
		return nil, err
	case id.IsZero() && w.OrganizationID == "":
		return nil, errNoOrganization
	}
	_, ok, err := s.members.Membership(v.Context(), id, v.session.User)
	if err == nil && !ok {
		if err = s.sessions.SetActive(v.Context(), v.session, nil); err == nil {
			err = errNotMemberOf
		}
	}
	if err != nil {
		return nil, err
	}
	if err := s.activate(v, &id); err != nil {
		return nil, err
	}
	return s.organization(v, id)
}

// activate chooses a workspace, nil for none, and sets the cookie again as Better
// Auth does.
func (s *Server) activate(v *visit, workspace *events.ID) error {
	if err := s.sessions.SetActive(v.Context(), v.session, workspace); err != nil {
		return err
	}
	v.w.Header().Del("Set-Cookie") // if the session was extended
	s.renewCookie(v, v.session)
	return nil
}

func (s *Server) getOrganization(v *visit) (any, error) {
	m, none, err := s.place(v)
	if err != nil || none {
		return nil, err
	}
	return s.organization(v, m.Workspace)
}

// place returns the caller's place in the organization of the query. none
// says that the query names nothing and nothing is active.
func (s *Server) place(v *visit) (m projections.Membership, none bool, err error) {
	w := whichOf(v)
	id, err := s.find(v, w)
	switch {
	case err != nil:
		return m, false, err
	case id.IsZero() && w == (which{}):
		return m, true, nil
	case id.IsZero():
		return m, false, errNoOrganization
	}
	if _, ok, err := s.workspaces.Get(v.Context(), id); err != nil || !ok {
		return m, false, orElse(err, errNoOrganization)
	}
	m, ok, err := s.members.Membership(v.Context(), id, v.session.User)
	if err == nil && !ok {
		err = errNotMemberOf
	}
	return m, false, err
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func (s *Server) updateOrganization(v *visit) (any, error) {
	in, err := read[struct {
		OrganizationID string `json:"organizationId"`
		Data           struct {
			Name *string `json:"name"`
			Slug *string `json:"slug"`
			unkept
		} `json:"data"`
	}](v)
	if err != nil {
		return nil, err
	}
	if err := in.Data.refuse("data."); err != nil {
		return nil, err
	}
	m, err := s.membership(v, which{OrganizationID: in.OrganizationID}, errNoOrganization, errNotMember)
	if err != nil {
		return nil, err
	}
	err = v.did(s.commands.RenameWorkspace(v.Context(),
		commands.RenameWorkspace{Meta: v.meta(m.Workspace), Name: in.Data.Name, Slug: in.Data.Slug}))
	if err != nil {
		return nil, asValidation(translated(err, map[string]*fault.Fault{
			aggregates.ErrSlugTaken.Code: errSlugTaken, aggregates.ErrRoleRequired.Code: errUpdateDenied,
			fault.ErrTenantNotFound.Code: errNotMember,
		}))
	}
	o, err := s.organization(v, m.Workspace)
	return struct {
		organization
		Metadata map[string]any `json:"metadata"`
	}{o, map[string]any{}}, err
}

// deleteOrganization refuses: no workspace is ever deleted, its log stays.
func (s *Server) deleteOrganization(*visit) (any, error) { return nil, errDeletionDisabled }
