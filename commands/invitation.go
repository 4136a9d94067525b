package commands

import (
	"context"
	"fmt"

	"svc/aggregates"
	"svc/commands/work"
	"svc/events"
	"svc/fault"
	"svc/input"
)

// ErrInvitationExists means that another invitation has the same id.
var ErrInvitationExists = fault.New(fault.Conflict, "invitation_exists", "There is an invitation of this id.")

// SendInvitation invites the holder of an e-mail address to the workspace.
type SendInvitation struct {
	Meta       `json:"-"`
	Invitation events.ID   `json:"-"`
	Email      string      `json:"email"`
	Role       events.Role `json:"role"`
}

func (c SendInvitation) denial() events.CommandDenied {
	e := denialOf(events.InvitationSent{}, events.ID{})
	e.Name, _ = input.TypedEmail(c.Email) // normalized, or empty if it is malformed
	return e
}

func (SendInvitation) limit() *limit { return invitations }

// An InvitationAnswer is the stored answer of SendInvitation.
type InvitationAnswer struct {
	Invitation events.ID `json:"invitationId"`
}

// SendInvitation refuses an address that is a member's or is invited already, an invitation
// as Owner unless an Owner sends it, and callers who may not manage members.
func (h *Handler) SendInvitation(ctx context.Context, c SendInvitation) (Result, error) {
	address, _ := input.TypedEmail(c.Email) // the aggregate refuses a malformed address
	_, known, err := h.log.Holder(ctx, events.EmailKey(address))
	if err != nil {
		return Result{}, fmt.Errorf("look up holder of address: %w", err)
	}
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace,
		func(w *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
			w.Answer = InvitationAnswer{Invitation: c.Invitation}
			w.Claim(events.Claim{Key: events.InvitationKey(c.Invitation), Owner: c.Invitation, Global: true}, ErrInvitationExists)
			return ws.Invite(c.Actor.ID, c.Invitation, c.Email, c.Role, known, w.Now)
		}))
}

// ResendInvitation restarts the 48 hours in which an invitation can be accepted.
type ResendInvitation struct {
	Meta       `json:"-"`
	Invitation events.ID `json:"invitationId"`
}

func (c ResendInvitation) denial() events.CommandDenied {
	return denialOf(events.InvitationResent{}, c.Invitation)
}

func (ResendInvitation) limit() *limit { return invitations }

// ResendInvitation refuses an invitation that was answered or revoked, and callers who
// could not send such an invitation.
func (h *Handler) ResendInvitation(ctx context.Context, c ResendInvitation) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace, func(w *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
		return ws.Resend(c.Actor.ID, c.Invitation, w.Now)
	}))
}

// RevokeInvitation revokes an invitation.
type RevokeInvitation struct {
	Meta       `json:"-"`
	Invitation events.ID `json:"invitationId"`
}

func (c RevokeInvitation) denial() events.CommandDenied {
	return denialOf(events.InvitationRevoked{}, c.Invitation)
}

func (RevokeInvitation) limit() *limit { return ending }

// RevokeInvitation refuses an invitation that was answered or revoked, and callers who may
// not manage members.
func (h *Handler) RevokeInvitation(ctx context.Context, c RevokeInvitation) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace, func(_ *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
		return ws.Revoke(c.Actor.ID, c.Invitation)
	}))
}

// AcceptInvitation makes the invitee a member of the inviting workspace, which is that of
// Meta. Name is the invitee's name, Emails their [Handler.VerifiedAddresses].
type AcceptInvitation struct {
	Meta       `json:"-"`
	Invitation events.ID `json:"invitationId"`
	Member     events.ID `json:"-"`
	Name       string    `json:"-"`
	Emails     []string  `json:"-"`
}

func (c AcceptInvitation) denial() events.CommandDenied {
	return denialOf(events.InvitationAccepted{}, c.Invitation)
}

func (AcceptInvitation) limit() *limit { return onceEach }

// AcceptInvitation refuses an invitation that is to another address, has expired, was
// answered or revoked, or whose sender could no longer send it, and invitees who are
// members already.
func (h *Handler) AcceptInvitation(ctx context.Context, c AcceptInvitation) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace, func(w *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
		return ws.Accept(aggregates.Invitee{User: c.Actor.ID, Name: c.Name, Emails: c.Emails}, c.Invitation, c.Member, w.Now)
	}))
}

// RejectInvitation rejects an invitation. Emails are as in AcceptInvitation.
type RejectInvitation struct {
	Meta       `json:"-"`
	Invitation events.ID `json:"invitationId"`
	Emails     []string  `json:"-"`
}

func (c RejectInvitation) denial() events.CommandDenied {
	return denialOf(events.InvitationRejected{}, c.Invitation)
}

func (RejectInvitation) limit() *limit { return onceEach }

// RejectInvitation refuses an invitation that is to another address, or was answered or
// revoked. An expired one can be rejected.
func (h *Handler) RejectInvitation(ctx context.Context, c RejectInvitation) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace, func(_ *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
		return ws.Reject(aggregates.Invitee{User: c.Actor.ID, Emails: c.Emails}, c.Invitation)
	}))
}
