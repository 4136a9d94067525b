package auth

import (
	"cmp"
	"errors"
	"slices"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/input"
	"svc/projections"
)

type invitation struct {
	ID             string            `json:"id"`
	OrganizationID string            `json:"organizationId"`
	Email          string            `json:"email"`
	Role           string            `json:"role"`
	Status         string            `json:"status"` // pending, accepted, rejected, canceled
	ExpiresAt      openapi.Timestamp `json:"expiresAt"`
	CreatedAt      openapi.Timestamp `json:"createdAt"`
	InviterID      string            `json:"inviterId"`
}

func newInvitation(i projections.Invitation) invitation {
	status := i.Status
	if status == projections.InvitationRevoked {
		status = "canceled"
	}
	return invitation{
		ID: i.ID.String(), OrganizationID: i.Workspace.String(), Email: i.Email, Role: roleName(i.Role), Status: status,
		ExpiresAt: openapi.FormatTime(i.ExpiresAt), CreatedAt: openapi.FormatTime(i.SentAt), InviterID: i.Inviter.String(),
	}
}

func (s *Server) inviteMember(r *request) (any, error) {
	in, err := readBody[struct {
		Email          string   `json:"email"`
		Role           roleList `json:"role"`
		OrganizationID string   `json:"organizationId"`
		Resend         bool     `json:"resend"`
	}](r)
	if err != nil {
		return nil, err
	}
	if err := requireField("email", in.Email); err != nil {
		return nil, err
	}
	m, err := s.membership(r, selector{OrganizationID: in.OrganizationID}, errNoOrganization, errNoMember)
	address, ok := input.TypedEmail(in.Email)
	switch {
	case errors.Is(err, errNoOrganization):
		return nil, err
	case !ok:
		return nil, errEmail
	case err != nil:
		return nil, err
	}
	role, err := in.Role.role()
	if err != nil {
		return nil, cmp.Or(s.inviteDenied(r, m, address), err)
	}
	id, err := s.invite(r, m.Workspace, address, role, in.Resend)
	if err != nil {
		return nil, asValidation(translate(err, map[string]*fault.Fault{
			fault.ErrTenantNotFound.Code: errNoMember, aggregates.ErrRoleRequired.Code: errInviteDenied,
			aggregates.ErrOwnerRequired.Code: errInviteOwner, aggregates.ErrAlreadyMember.Code: errAlreadyMember,
			aggregates.ErrAlreadyInvited.Code: errAlreadyInvited,
		}))
	}
	return s.invitation(r, m.Workspace, id)
}

// inviteDenied returns the refusal of a member who may not invite anybody, whatever the role, and
// records it. It returns nil if the member may.
func (s *Server) inviteDenied(r *request, m projections.Membership, address string) error {
	if m.Role.May(events.ManageMembers) {
		return nil
	}
	send := commands.SendInvitation{Meta: r.meta(m.Workspace), Email: address}
	if err := s.Commands.RecordDenial(r.Context(), send.Meta, send, aggregates.ErrRoleRequired); err != nil {
		return err
	}
	return errInviteDenied
}

// invite sends an invitation or, if again is set and the address has a pending one, resends that.
func (s *Server) invite(r *request, workspace events.ID, address string, role events.Role, again bool) (events.ID, error) {
	if again {
		waiting, ok, err := s.Invitations.ForAddress(r.Context(), workspace, address)
		if err != nil {
			return events.ID{}, err
		}
		if ok {
			err := r.recordPosition(s.Commands.ResendInvitation(r.Context(),
				commands.ResendInvitation{Meta: r.meta(workspace), Invitation: waiting.ID}))
			return waiting.ID, err
		}
	}
	id := events.NewID(s.Now())
	err := r.recordPosition(s.Commands.SendInvitation(r.Context(), commands.SendInvitation{
		Meta: r.meta(workspace), Invitation: id, Email: address, Role: role,
	}))
	return id, err
}

func (s *Server) invitation(r *request, workspace, id events.ID) (invitation, error) {
	i, ok, err := s.Invitations.Get(r.Context(), workspace, id)
	switch {
	case err != nil:
		return invitation{}, err
	case !ok:
		return invitation{}, errNoInvitation
	}
	return newInvitation(i), nil
}

// findInvitation returns the invitation with an id, in any workspace.
func (s *Server) findInvitation(r *request, name string) (i projections.Invitation, err error) {
	id, err := events.ParseID(name)
	if err != nil {
		return i, errNoInvitation
	}
	workspace, _, err := s.Keys.Holder(r.Context(), events.InvitationKey(id))
	if err != nil {
		return i, err
	}
	i, ok, err := s.Invitations.Get(r.Context(), workspace, id)
	if err == nil && !ok {
		err = errNoInvitation
	}
	return i, err
}

func (s *Server) invitationFromBody(r *request) (i projections.Invitation, err error) {
	in, err := readBody[struct {
		InvitationID string `json:"invitationId"`
	}](r)
	if err != nil {
		return i, err
	}
	if err := requireField("invitationId", in.InvitationID); err != nil {
		return i, err
	}
	return s.findInvitation(r, in.InvitationID)
}

func (s *Server) cancelInvitation(r *request) (any, error) {
	i, err := s.invitationFromBody(r)
	if err != nil {
		return nil, err
	}
	err = r.recordPosition(s.Commands.RevokeInvitation(r.Context(), commands.RevokeInvitation{Meta: r.meta(i.Workspace), Invitation: i.ID}))
	if err != nil {
		return nil, translate(err, map[string]*fault.Fault{
			fault.ErrTenantNotFound.Code: errNoMember, aggregates.ErrRoleRequired.Code: errCancelDenied,
			aggregates.ErrNoInvitation.Code: errNoInvitation, aggregates.ErrInvitationNotPending.Code: errNoInvitation,
		})
	}
	return s.invitation(r, i.Workspace, i.ID)
}

// answerRefusals translates the refusals of an invitee's answer.
var answerRefusals = map[string]*fault.Fault{
	aggregates.ErrNoInvitation.Code: errNoInvitation, aggregates.ErrInvitationNotPending.Code: errNoInvitation,
	aggregates.ErrNotInvitee.Code: errNotRecipient, aggregates.ErrAlreadyMember.Code: errAlreadyMember,
}

func (s *Server) acceptInvitation(r *request) (any, error) {
	i, err := s.invitationFromBody(r)
	if err != nil {
		return nil, err
	}
	addresses, err := s.Commands.VerifiedAddresses(r.Context(), r.session.Home, r.session.User)
	if err != nil {
		return nil, err
	}
	id := events.NewID(s.Now())
	err = r.recordPosition(s.Commands.AcceptInvitation(r.Context(), commands.AcceptInvitation{
		Meta: r.meta(i.Workspace), Invitation: i.ID, Member: id, Name: r.session.Name, Emails: addresses,
	}))
	if err != nil {
		return nil, translate(err, answerRefusals)
	}
	if _, err := s.Sessions.SetActive(r.Context(), r.session, i.Workspace); err != nil {
		return nil, err
	}
	accepted, err := s.invitation(r, i.Workspace, i.ID)
	if err != nil {
		return nil, err
	}
	joined, err := s.member(r, i.Workspace, id)
	return map[string]any{"invitation": accepted, "member": joined.withoutUser()}, err
}

func (s *Server) rejectInvitation(r *request) (any, error) {
	i, err := s.invitationFromBody(r)
	if err != nil {
		return nil, err
	}
	addresses, err := s.Commands.VerifiedAddresses(r.Context(), r.session.Home, r.session.User)
	if err != nil {
		return nil, err
	}
	err = r.recordPosition(s.Commands.RejectInvitation(r.Context(), commands.RejectInvitation{
		Meta: r.meta(i.Workspace), Invitation: i.ID, Emails: addresses,
	}))
	if err != nil {
		return nil, translate(err, answerRefusals)
	}
	rejected, err := s.invitation(r, i.Workspace, i.ID)
	return map[string]any{"invitation": rejected, "member": nil}, err
}

func (s *Server) getInvitation(r *request) (any, error) {
	if !r.URL.Query().Has("id") {
		return nil, errQuery("id", "Invalid input: expected string, received undefined")
	}
	i, err := s.findInvitation(r, r.URL.Query().Get("id"))
	switch {
	case err != nil:
		return nil, err
	case !i.Acceptable(s.Now()):
		return nil, errNoInvitation
	case !r.session.Has(i.Email):
		return nil, errNotRecipient
	}
	return struct {
		invitation
		OrganizationName string `json:"organizationName"`
		OrganizationSlug string `json:"organizationSlug"`
		InviterEmail     string `json:"inviterEmail"`
	}{newInvitation(i), i.WorkspaceName, i.WorkspaceSlug, i.InviterName}, nil
}

func (s *Server) listInvitations(r *request) (any, error) {
	w := selector{OrganizationID: r.URL.Query().Get("organizationId")}
	m, err := s.membership(r, w, errOrganizationID, errYouAreNoMember)
	switch {
	case err != nil:
		return nil, err
	case !m.Role.May(events.ManageMembers):
		return nil, errListDenied
	}
	return s.pending(r, m.Workspace, func(projections.Invitation) bool { return true })
}

// maxInvitations bounds the invitations of a workspace in an answer, as in Better Auth. There is no
// paging.
const maxInvitations = 100

// pending returns the newest pending and expired invitations of a workspace that include selects, in the
// order in which they were sent.
func (s *Server) pending(r *request, workspace events.ID, include func(projections.Invitation) bool) ([]invitation, error) {
	found, err := s.Invitations.Pending(r.Context(), workspace, maxInvitations, 0)
	list := []invitation{}
	for _, i := range slices.Backward(found) {
		if include(i) {
			list = append(list, newInvitation(i))
		}
	}
	return list, err
}

type userInvitation struct {
	invitation
	OrganizationName string `json:"organizationName"`
}

// maxOfPerson bounds a person's workspaces, and their invitations, in an answer.
const maxOfPerson = 1000

// listUserInvitations lists the invitations that the person can accept with any verified address, newest
// first, so that many old invitations do not hide a new one.
func (s *Server) listUserInvitations(r *request) (any, error) {
	if r.URL.Query().Has("email") {
		return nil, errEmailFromBrowser
	}
	found, err := s.Invitations.ForAddresses(r.Context(), r.session.Emails, s.Now(), maxOfPerson)
	list := []userInvitation{}
	for _, i := range found {
		list = append(list, userInvitation{newInvitation(i), i.WorkspaceName})
	}
	return list, err
}
