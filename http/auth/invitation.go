package auth

import (
	"slices"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/input"
	"svc/projections"
)

type invitation struct {
	ID             string `json:"id"`
	OrganizationID string `json:"organizationId"`
	Email          string `json:"email"`
	Role           string `json:"role"`
	Status         string `json:"status"` // pending, accepted, rejected, canceled
	ExpiresAt      string `json:"expiresAt"`
	CreatedAt      string `json:"createdAt"`
	InviterID      string `json:"inviterId"`
}

func newInvitation(i projections.Invitation) invitation {
	status := i.Status
	if status == projections.InvitationRevoked {
		status = "canceled"
	}
	return invitation{
		ID: i.ID.String(), OrganizationID: i.Workspace.String(), Email: i.Email, Role: roleName(i.Role), Status: status,
		ExpiresAt: at(i.ExpiresAt), CreatedAt: at(i.SentAt), InviterID: i.Inviter.String(),
	}
}

func (s *Server) inviteMember(v *visit) (any, error) {
	in, err := read[struct {
		Email          string   `json:"email"`
		Role           roleList `json:"role"`
		OrganizationID string   `json:"organizationId"`
		Resend         bool     `json:"resend"`
	}](v)
	if err != nil {
		return nil, err
	}
	if err := need("email", in.Email); err != nil {
		return nil, err
	}
	address, ok := input.Email(in.Email)
	if !ok {
		return nil, errEmail
	}
	m, err := s.membership(v, which{OrganizationID: in.OrganizationID}, errNoOrganization, errNoMember)
	if err != nil {
		return nil, err
	}
	role, err := in.Role.role()
	if err != nil {
		return nil, err
	}
	id, err := s.invite(v, m.Workspace, address, role, in.Resend)
	if err != nil {
		return nil, asValidation(translated(err, map[string]*fault.Fault{
			fault.ErrTenantNotFound.Code: errNoMember, aggregates.ErrRoleRequired.Code: errInviteDenied,
			aggregates.ErrOwnerRequired.Code: errInviteOwner, aggregates.ErrAlreadyMember.Code: errAlreadyMember,
			aggregates.ErrAlreadyInvited.Code: errAlreadyInvited,
		}))
	}
	return s.invitation(v, m.Workspace, id)
}

// invite sends an invitation or, if that is asked for and the address has one
// that waits, sends that again.
func (s *Server) invite(v *visit, workspace events.ID, address string, role events.Role, again bool) (events.ID, error) {
	if again {
		waiting, ok, err := s.invitations.ForAddress(v.Context(), workspace, address)
		if err != nil {
			return events.ID{}, err
		}
		if ok {
			err := v.did(s.commands.ResendInvitation(v.Context(),
				commands.ResendInvitation{Meta: v.meta(workspace), Invitation: waiting.ID}))
			return waiting.ID, err
		}
	}
	id := events.NewID(s.now())
	err := v.did(s.commands.SendInvitation(v.Context(), commands.SendInvitation{
		Meta: v.meta(workspace), Invitation: id, Email: address, Role: role,
	}))
	return id, err
}

func (s *Server) invitation(v *visit, workspace, id events.ID) (invitation, error) {
	i, ok, err := s.invitations.Get(v.Context(), workspace, id)
	switch {
	case err != nil:
		return invitation{}, err
	case !ok:
		return invitation{}, errNoInvitation
	}
	return newInvitation(i), nil
}

// named returns the invitation that the body or the query names, whichever
// workspace it leads to.
func (s *Server) named(v *visit, name string) (i projections.Invitation, err error) {
	id, err := events.ParseID(name)
	if err != nil {
		return i, errNoInvitation
	}
	workspace, _, err := s.keys.Holder(v.Context(), events.InvitationKey(id))
	if err != nil {
		return i, err
	}
	i, ok, err := s.invitations.Get(v.Context(), workspace, id)
	if err == nil && !ok {
		err = errNoInvitation
	}
	return i, err
}

func (s *Server) namedInBody(v *visit) (i projections.Invitation, err error) {
	in, err := read[struct {
		InvitationID string `json:"invitationId"`
	}](v)
	if err != nil {
		return i, err
	}
	if err := need("invitationId", in.InvitationID); err != nil {
		return i, err
	}
	return s.named(v, in.InvitationID)
}

func (s *Server) cancelInvitation(v *visit) (any, error) {
	i, err := s.namedInBody(v)
	if err != nil {
		return nil, err
	}
	err = v.did(s.commands.RevokeInvitation(v.Context(), commands.RevokeInvitation{Meta: v.meta(i.Workspace), Invitation: i.ID}))
	if err != nil {
		return nil, translated(err, map[string]*fault.Fault{
			fault.ErrTenantNotFound.Code: errNoMember, aggregates.ErrRoleRequired.Code: errCancelDenied,
			aggregates.ErrNoInvitation.Code: errNoInvitation, aggregates.ErrInvitationNotPending.Code: errNoInvitation,
		})
	}
	return s.invitation(v, i.Workspace, i.ID)
}

// answerWords are the refusals of an invitee's answer.
var answerWords = map[string]*fault.Fault{
	aggregates.ErrNoInvitation.Code: errNoInvitation, aggregates.ErrInvitationNotPending.Code: errNoInvitation,
	aggregates.ErrNotInvitee.Code: errNotRecipient, aggregates.ErrAlreadyMember.Code: errAlreadyMember,
}

func (s *Server) acceptInvitation(v *visit) (any, error) {
	i, err := s.namedInBody(v)
	if err != nil {
		return nil, err
	}
	id := events.NewID(s.now())
	err = v.did(s.commands.AcceptInvitation(v.Context(), commands.AcceptInvitation{
		Meta: v.meta(i.Workspace), Invitation: i.ID, Member: id, Name: v.session.Name, Emails: v.session.Emails,
	}))
	if err != nil {
		return nil, translated(err, answerWords)
	}
	if err := s.sessions.SetActive(v.Context(), v.session, &i.Workspace); err != nil {
		return nil, err
	}
	accepted, err := s.invitation(v, i.Workspace, i.ID)
	if err != nil {
		return nil, err
	}
	joined, err := s.member(v, i.Workspace, id)
	return map[string]any{"invitation": accepted, "member": joined.alone()}, err
}

func (s *Server) rejectInvitation(v *visit) (any, error) {
	i, err := s.namedInBody(v)
	if err != nil {
		return nil, err
	}
	err = v.did(s.commands.RejectInvitation(v.Context(), commands.RejectInvitation{
		Meta: v.meta(i.Workspace), Invitation: i.ID, Emails: v.session.Emails,
	}))
	if err != nil {
		return nil, translated(err, answerWords)
	}
	rejected, err := s.invitation(v, i.Workspace, i.ID)
	return map[string]any{"invitation": rejected, "member": nil}, err
}

func (s *Server) getInvitation(v *visit) (any, error) {
	if !v.URL.Query().Has("id") {
		return nil, errQuery("id", "Invalid input: expected string, received undefined")
	}
	i, err := s.named(v, v.URL.Query().Get("id"))
	switch {
	case err != nil:
		return nil, err
	case !i.Acceptable(s.now()):
		return nil, errNoInvitation
	case !v.session.Has(i.Email):
		return nil, errNotRecipient
	}
	return struct {
		invitation
		OrganizationName string `json:"organizationName"`
		OrganizationSlug string `json:"organizationSlug"`
		InviterEmail     string `json:"inviterEmail"`
	}{newInvitation(i), i.WorkspaceName, i.WorkspaceSlug, i.InviterName}, nil
}

func (s *Server) listInvitations(v *visit) (any, error) {
	w := which{OrganizationID: v.URL.Query().Get("organizationId")}
	m, err := s.membership(v, w, errOrganizationID, errYouAreNoMember)
	switch {
	case err != nil:
		return nil, err
	case !m.Role.May(events.ManageMembers):
		return nil, errListDenied
	}
	return s.pending(v, m.Workspace, func(projections.Invitation) bool { return true })
}

// maxInvitations is how many of a workspace's are answered, as by Better Auth,
// which has no paging here either.
const maxInvitations = 100

// pending returns those that wait for an answer or have expired: the newest, in
// the order in which they were sent.
func (s *Server) pending(v *visit, workspace events.ID, shown func(projections.Invitation) bool) ([]invitation, error) {
	found, err := s.invitations.Pending(v.Context(), workspace, maxInvitations, 0)
	list := []invitation{}
	for _, i := range slices.Backward(found) {
		if shown(i) {
			list = append(list, newInvitation(i))
		}
	}
	return list, err
}

type userInvitation struct {
	invitation
	OrganizationName string `json:"organizationName"`
}

// maxOfPerson is how many workspaces, or invitations, of a person are answered.
const maxOfPerson = 1000

// listUserInvitations lists what the person can accept, by any verified address,
// the newest first: what strangers sent before hides none that came later.
func (s *Server) listUserInvitations(v *visit) (any, error) {
	if v.URL.Query().Has("email") {
		return nil, errEmailFromBrowser
	}
	found, err := s.invitations.ForAddresses(v.Context(), v.session.Emails, s.now(), maxOfPerson)
	list := []userInvitation{}
	for _, i := range found {
		list = append(list, userInvitation{newInvitation(i), i.WorkspaceName})
	}
	return list, err
}

// getFullOrganization answers null if none is named and none active.
// Invitations are for those who may invite; one to an Owner's place is for Owners.
func (s *Server) getFullOrganization(v *visit) (any, error) {
	m, none, err := s.place(v)
	if err != nil || none {
		return nil, err
	}
	o, err := s.organization(v, m.Workspace)
	if err != nil {
		return nil, err
	}
	members, _, err := s.memberPage(v, projections.MemberQuery{Workspace: m.Workspace,
		Limit: v.number("membersLimit", 100, projections.MaxMembersPage)})
	if err != nil {
		return nil, err
	}
	invitations := []invitation{}
	if m.Role.May(events.ManageMembers) {
		invitations, err = s.pending(v, m.Workspace, func(i projections.Invitation) bool {
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
