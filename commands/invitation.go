package commands

import (
	"context"
	"fmt"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/input"
)

// ErrInvitationExists says that an invitation has the id of another one.
var ErrInvitationExists = fault.New(fault.Conflict, "invitation_exists", "There is an invitation of this id.")

// SendInvitation asks the holder of an e-mail address to join the workspace.
type SendInvitation struct {
	Meta       `json:"-"`
	Invitation events.ID   `json:"-"`
	Email      string      `json:"email"`
	Role       events.Role `json:"role"`
}

func (c SendInvitation) denial() events.CommandDenied {
	e := denialOf(events.InvitationSent{}, events.ID{})
	e.Name, _ = input.Email(c.Email) // as it is kept, or nothing
	return e
}

// An InvitationAnswer is what is kept of SendInvitation, for its repetition.
type InvitationAnswer struct {
	Invitation events.ID `json:"invitationId"`
}

// SendInvitation refuses an address that is a member's or invited already, an
// invitation as Owner by anybody but an Owner, and whoever does not manage members.
func (h *Handler) SendInvitation(ctx context.Context, c SendInvitation) (Result, error) {
	address, _ := input.Email(c.Email) // what is none the workspace refuses
	_, known, err := h.log.Holder(ctx, events.EmailKey(address))
	if err != nil {
		return Result{}, fmt.Errorf("who has the invited address: %w", err)
	}
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		workspace, err := load[aggregates.Workspace](w, c.Workspace)
		if err != nil {
			return err
		}
		w.answer = InvitationAnswer{Invitation: c.Invitation}
		w.claim(events.Claim{Key: events.InvitationKey(c.Invitation), Owner: c.Invitation, Global: true}, ErrInvitationExists)
		list, err := workspace.Invite(c.Actor.ID, c.Invitation, c.Email, c.Role, known, w.at)
		return w.then(c.Workspace, list, err)
	})
}

// ResendInvitation lets the 48 hours of an invitation begin again.
type ResendInvitation struct {
	Meta       `json:"-"`
	Invitation events.ID `json:"invitationId"`
}

func (c ResendInvitation) denial() events.CommandDenied {
	return denialOf(events.InvitationResent{}, c.Invitation)
}

// ResendInvitation refuses what was answered or revoked, and whoever could not send
// such an invitation.
func (h *Handler) ResendInvitation(ctx context.Context, c ResendInvitation) (Result, error) {
	return h.carryWorkspace(ctx, c.Meta, c, func(at *work, w *aggregates.Workspace) ([]events.Event, error) {
		return w.Resend(c.Actor.ID, c.Invitation, at.at)
	})
}

// RevokeInvitation takes an invitation back.
type RevokeInvitation struct {
	Meta       `json:"-"`
	Invitation events.ID `json:"invitationId"`
}

func (c RevokeInvitation) denial() events.CommandDenied {
	return denialOf(events.InvitationRevoked{}, c.Invitation)
}

// RevokeInvitation refuses what was answered or revoked, and whoever does not manage
// members.
func (h *Handler) RevokeInvitation(ctx context.Context, c RevokeInvitation) (Result, error) {
	return h.carryWorkspace(ctx, c.Meta, c, func(_ *work, w *aggregates.Workspace) ([]events.Event, error) {
		return w.Revoke(c.Actor.ID, c.Invitation)
	})
}

// AcceptInvitation makes the invitee, whose name is given, a member. Emails are their
// verified addresses, the primary one first. The workspace of Meta is the inviting one.
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

// AcceptInvitation refuses an invitation to another address, one that has expired, was
// answered or revoked, or whose sender could no longer send it, and who is a member.
func (h *Handler) AcceptInvitation(ctx context.Context, c AcceptInvitation) (Result, error) {
	return h.carryWorkspace(ctx, c.Meta, c, func(at *work, w *aggregates.Workspace) ([]events.Event, error) {
		return w.Accept(aggregates.Invitee{User: c.Actor.ID, Name: c.Name, Emails: c.Emails}, c.Invitation, c.Member, at.at)
	})
}

// RejectInvitation says no to an invitation. Emails are as in AcceptInvitation.
type RejectInvitation struct {
	Meta       `json:"-"`
	Invitation events.ID `json:"invitationId"`
	Emails     []string  `json:"-"`
}

func (c RejectInvitation) denial() events.CommandDenied {
	return denialOf(events.InvitationRejected{}, c.Invitation)
}

// RejectInvitation refuses an invitation to another address, and what was answered or
// revoked. One that has expired can be rejected.
func (h *Handler) RejectInvitation(ctx context.Context, c RejectInvitation) (Result, error) {
	return h.carryWorkspace(ctx, c.Meta, c, func(_ *work, w *aggregates.Workspace) ([]events.Event, error) {
		return w.Reject(aggregates.Invitee{User: c.Actor.ID, Emails: c.Emails}, c.Invitation)
	})
}
