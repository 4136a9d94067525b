package aggregates

import (
	"slices"
	"time"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// Why a workspace may refuse what is asked about an invitation.
var (
	ErrNoInvitation         = fault.New(fault.NotFound, "invitation_not_found", "There is no such invitation.")
	ErrInvitationNotPending = fault.New(fault.Conflict, "invitation_not_pending", "This invitation can no longer be answered. It has expired, or it was answered or revoked.")
	ErrAlreadyInvited       = fault.New(fault.Conflict, "already_invited", "This address is invited already.")
	ErrNotInvitee           = fault.New(fault.Denied, "invitation_not_yours", "This invitation is for another address.")
)

// An invitation waits for its answer, whether or not its time is up. One that
// was answered or revoked is only remembered by its id.
type invitation struct {
	email   string
	role    events.Role
	expires time.Time
}

func (i invitation) expired(at time.Time) bool { return !at.Before(i.expires) }

// expiry is when an invitation of a time expires, as precisely as tables keep it.
func expiry(at time.Time) time.Time {
	return at.UTC().Truncate(time.Microsecond).Add(events.InvitationLifetime)
}

// An Invitee is a person who answers an invitation.
type Invitee struct {
	User   events.ID
	Emails []string // verified, as input.Email has them, the primary one first
}

func (w *Workspace) applyInvitation(e events.Event) {
	switch e := e.(type) {
	case events.InvitationSent:
		w.invitations[e.Invitation] = invitation{email: e.Email, role: e.Role, expires: e.ExpiresAt}
		w.invited[e.Email] = e.Invitation
	case events.InvitationResent:
		i := w.invitations[e.Invitation]
		i.expires = e.ExpiresAt
		w.invitations[e.Invitation] = i
	case events.InvitationRevoked:
		w.close(e.Invitation)
	case events.InvitationAccepted:
		w.close(e.Invitation)
	case events.InvitationRejected:
		w.close(e.Invitation)
	}
}

func (w *Workspace) close(id events.ID) {
	delete(w.invited, w.invitations[id].email)
	delete(w.invitations, id)
	w.closed[id] = true
}

// Invite asks the holder of an address to join. known is the person who has
// verified the address, zero if nobody has. An invitation to the same address
// whose time is up gives way to the new one.
func (w *Workspace) Invite(by, id events.ID, address string, role events.Role, known events.ID, at time.Time) ([]events.Event, error) {
	address, ok := input.Email(address)
	if !ok {
		return nil, fault.Field("email", "must be an e-mail address")
	}
	if err := w.mayInvite(by, role); err != nil {
		return nil, err
	}
	switch _, member := w.byUser[known]; {
	case !assignable(role):
		return nil, errRole
	case member:
		return nil, ErrAlreadyMember
	}
	sent := events.InvitationSent{Invitation: id, Email: address, Role: role, ExpiresAt: expiry(at)}
	before, waits := w.invited[address]
	switch {
	case waits && !w.invitations[before].expired(at):
		return nil, ErrAlreadyInvited
	case waits:
		return []events.Event{events.InvitationRevoked{Invitation: before, Email: address}, sent}, nil
	}
	return one(sent)
}

// Resend lets the 48 hours of an invitation begin again.
func (w *Workspace) Resend(by, id events.ID, at time.Time) ([]events.Event, error) {
	i, err := w.waiting(by, id)
	if err != nil {
		return nil, err
	}
	if err := w.mayInvite(by, i.role); err != nil {
		return nil, err
	}
	return one(events.InvitationResent{Invitation: id, Email: i.email, ExpiresAt: expiry(at)})
}

// Revoke takes an invitation back.
func (w *Workspace) Revoke(by, id events.ID) ([]events.Event, error) {
	i, err := w.waiting(by, id)
	if err != nil {
		return nil, err
	}
	return one(events.InvitationRevoked{Invitation: id, Email: i.email})
}

// Accept makes the invitee a member, with the role that they were invited to.
func (w *Workspace) Accept(by Invitee, id, member events.ID, at time.Time) ([]events.Event, error) {
	i, err := w.answerable(by, id)
	switch _, joined := w.byUser[by.User]; {
	case err != nil:
		return nil, err
	case i.expired(at):
		return nil, ErrInvitationNotPending
	case joined:
		return nil, ErrAlreadyMember
	}
	return []events.Event{
		events.InvitationAccepted{Invitation: id, Email: i.email, User: by.User},
		events.MemberJoined{Member: member, User: by.User, Email: by.Emails[0], Role: i.role},
	}, nil
}

// Reject says no to an invitation. That needs no hurry: one whose time is up
// can be rejected too.
func (w *Workspace) Reject(by Invitee, id events.ID) ([]events.Event, error) {
	i, err := w.answerable(by, id)
	if err != nil {
		return nil, err
	}
	return one(events.InvitationRejected{Invitation: id, Email: i.email, User: by.User})
}

func (w *Workspace) mayInvite(by events.ID, role events.Role) error {
	if err := w.Administer(by); err != nil {
		return err
	}
	if role == events.Owner && w.Role(by) != events.Owner {
		return ErrOwnerRequired
	}
	return nil
}

// waiting returns an invitation that somebody who administers asks about.
func (w *Workspace) waiting(by, id events.ID) (invitation, error) {
	if err := w.Administer(by); err != nil {
		return invitation{}, err
	}
	return w.pending(id)
}

// answerable returns an invitation that the invitee may answer.
func (w *Workspace) answerable(by Invitee, id events.ID) (invitation, error) {
	i, err := w.pending(id)
	if err == nil && !slices.Contains(by.Emails, i.email) {
		err = ErrNotInvitee
	}
	return i, err
}

func (w *Workspace) pending(id events.ID) (invitation, error) {
	i, ok := w.invitations[id]
	switch {
	case ok:
		return i, nil
	case w.closed[id]:
		return i, ErrInvitationNotPending
	}
	return i, ErrNoInvitation
}
