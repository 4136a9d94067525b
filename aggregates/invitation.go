package aggregates

import (
	"slices"
	"time"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// The reasons for which a command about an invitation is refused.
var (
	ErrNoInvitation         = fault.New(fault.NotFound, "invitation_not_found", "There is no such invitation.")
	ErrInvitationNotPending = fault.New(fault.Conflict, "invitation_not_pending", "This invitation can no longer be answered. "+
		"It has expired, it was answered or revoked, or whoever sent it may no longer invite.")
	ErrAlreadyInvited = fault.New(fault.Conflict, "already_invited", "This address is invited already.")
	ErrNotInvitee     = fault.New(fault.Denied, "invitation_not_yours", "This invitation is for another address.")
)

// An invitation is pending, even if it has expired. Of the last maxClosed that were answered
// or revoked only the ids are kept.
type invitation struct {
	email   string
	role    events.Role
	expires time.Time
	sender  events.ID // who sent it last
}

// maxWithdrawn limits how many invitations are revoked together with their sender's right
// to send them, because an append has a time limit of five seconds. The rest cannot be
// accepted anyway while the sender lacks the right.
const maxWithdrawn = 1000

// maxClosed limits the ids of closed invitations that a workspace keeps, so that its state does
// not grow with its history. Requests about earlier ones get ErrNoInvitation.
const maxClosed = 1000

func (i invitation) expired(at time.Time) bool { return !at.Before(i.expires) }

// expiryAfter returns when an invitation sent at a time expires, in microseconds as tables
// store it.
func expiryAfter(at time.Time) time.Time {
	return at.UTC().Truncate(time.Microsecond).Add(events.InvitationLifetime)
}

// An Invitee is a person who answers an invitation.
type Invitee struct {
	User   events.ID
	Name   string
	Emails []string // verified, normalized by input.Email, the primary one first
}

func (w *Workspace) applyInvitation(e events.Event, by events.ID) {
	switch e := e.(type) {
	case events.InvitationSent:
		w.addInvitation(e.Invitation, invitation{email: e.Email, role: e.Role, expires: e.ExpiresAt, sender: by})
	case events.InvitationResent:
		i := w.invitations[e.Invitation]
		w.removeFromSender(e.Invitation, i)
		i.expires, i.sender = e.ExpiresAt, by
		w.addInvitation(e.Invitation, i)
	case events.InvitationRevoked:
		w.closeInvitation(e.Invitation)
	case events.InvitationAccepted:
		w.closeInvitation(e.Invitation)
	case events.InvitationRejected:
		w.closeInvitation(e.Invitation)
	}
}

func (w *Workspace) addInvitation(id events.ID, i invitation) {
	w.invitations[id], w.invited[i.email] = i, id
	w.pendingBySender[i.sender] = w.pendingBySender[i.sender].with(expiry{i.expires, id})
}

func (w *Workspace) closeInvitation(id events.ID) {
	i := w.invitations[id]
	w.removeFromSender(id, i)
	delete(w.invited, i.email)
	delete(w.invitations, id)
	if len(w.closed) == maxClosed {
		w.closed = slices.Delete(w.closed, 0, 1)
	}
	w.closed = append(w.closed, id)
}

func (w *Workspace) removeFromSender(id events.ID, i invitation) {
	if list := w.pendingBySender[i.sender].without(expiry{i.expires, id}); len(list) > 0 {
		w.pendingBySender[i.sender] = list
	} else {
		delete(w.pendingBySender, i.sender)
	}
}

// acceptable reports whether the invitee may accept an invitation: it has not expired, and
// its last sender could still send it.
func (w *Workspace) acceptable(i invitation, at time.Time) bool {
	return !i.expired(at) && w.Role(i.sender).MayInvite(i.role)
}

// withdraw revokes the invitations that a sender could no longer send with another role, ""
// for none. Expired invitations are left as they are.
func (w *Workspace) withdraw(sender events.ID, role events.Role, at time.Time) (list []events.Event) {
	for _, e := range slices.Backward(w.pendingBySender[sender]) {
		i := w.invitations[e.invitation]
		if i.expired(at) || len(list) == maxWithdrawn {
			break
		}
		if !role.MayInvite(i.role) {
			list = append(list, events.InvitationRevoked{Invitation: e.invitation, Email: i.email, Reason: events.InviterLeft})
		}
	}
	return list
}

// Invite invites the holder of an address. known is the user who has verified the address,
// zero if nobody has. It replaces an invitation to the same address that can no longer be
// accepted.
func (w *Workspace) Invite(by, id events.ID, address string, role events.Role, known events.ID, at time.Time) ([]events.Event, error) {
	address, ok := input.TypedEmail(address)
	if !ok {
		return nil, fault.Field("email", "must be an e-mail address")
	}
	if err := w.mayInvite(by, role); err != nil {
		return nil, err
	}
	switch _, member := w.byUser[known]; {
	case !role.Assignable():
		return nil, ErrNotAssignable
	case member:
		return nil, ErrAlreadyMember
	}
	sent := events.InvitationSent{Invitation: id, Email: address, Role: role, ExpiresAt: expiryAfter(at)}
	before, waits := w.invited[address]
	switch {
	case waits && w.acceptable(w.invitations[before], at):
		return nil, ErrAlreadyInvited
	case waits:
		return []events.Event{events.InvitationRevoked{Invitation: before, Email: address}, sent}, nil
	}
	return oneEvent(sent)
}

// Resend restarts the 48 hours in which an invitation can be accepted.
func (w *Workspace) Resend(by, id events.ID, at time.Time) ([]events.Event, error) {
	i, err := w.pendingForManager(by, id)
	if err != nil {
		return nil, err
	}
	if err := w.mayInvite(by, i.role); err != nil {
		return nil, err
	}
	return oneEvent(events.InvitationResent{Invitation: id, Email: i.email, ExpiresAt: expiryAfter(at)})
}

// Revoke revokes an invitation.
func (w *Workspace) Revoke(by, id events.ID) ([]events.Event, error) {
	i, err := w.pendingForManager(by, id)
	if err != nil {
		return nil, err
	}
	return oneEvent(events.InvitationRevoked{Invitation: id, Email: i.email})
}

// Accept makes the invitee a member with the role of the invitation.
func (w *Workspace) Accept(by Invitee, id, member events.ID, at time.Time) ([]events.Event, error) {
	i, err := w.pending(id)
	switch _, joined := w.byUser[by.User]; {
	case err != nil:
		return nil, err
	case !w.acceptable(i, at):
		return nil, ErrInvitationNotPending
	case !slices.Contains(by.Emails, i.email):
		return nil, ErrNotInvitee
	case joined:
		return nil, ErrAlreadyMember
	}
	return []events.Event{
		events.InvitationAccepted{Invitation: id, Email: i.email, User: by.User},
		events.MemberJoined{Member: member, User: by.User, Email: by.Emails[0], Name: by.Name, Role: i.role},
	}, nil
}

// Reject rejects an invitation, even an expired one.
func (w *Workspace) Reject(by Invitee, id events.ID) ([]events.Event, error) {
	i, err := w.answerable(by, id)
	if err != nil {
		return nil, err
	}
	return oneEvent(events.InvitationRejected{Invitation: id, Email: i.email, User: by.User})
}

func (w *Workspace) mayInvite(by events.ID, role events.Role) error {
	if err := w.Allow(by, events.ManageMembers); err != nil {
		return err
	}
	if !w.Role(by).MayInvite(role) {
		return ErrOwnerRequired
	}
	return nil
}

// pendingForManager returns a pending invitation, if by may manage members.
func (w *Workspace) pendingForManager(by, id events.ID) (invitation, error) {
	if err := w.Allow(by, events.ManageMembers); err != nil {
		return invitation{}, err
	}
	return w.pending(id)
}

// answerable returns a pending invitation, if it is to one of the invitee's addresses.
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
	case w.Deleted():
		return i, ErrNoInvitation
	case ok:
		return i, nil
	case slices.Contains(w.closed, id):
		return i, ErrInvitationNotPending
	}
	return i, ErrNoInvitation
}
