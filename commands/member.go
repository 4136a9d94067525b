package commands

import (
	"context"

	"svc/aggregates"
	"svc/events"
)

// AddMember makes a person a member without asking them. It is the system's:
// people come in by invitation.
type AddMember struct {
	Meta   `json:"-"`
	Member events.ID   `json:"memberId"`
	User   events.ID   `json:"userId"`
	Email  string      `json:"email"`
	Name   string      `json:"name,omitempty"`
	Role   events.Role `json:"role"`
}

// AddMember refuses who is a member already.
func (h *Handler) AddMember(ctx context.Context, c AddMember) (Result, error) {
	return h.carryWorkspace(ctx, c.Meta, c, func(_ *work, w *aggregates.Workspace) ([]events.Event, error) {
		return w.Join(events.MemberJoined{Member: c.Member, User: c.User, Email: c.Email, Name: c.Name, Role: c.Role})
	})
}

// UpdateMember gives a member another role, ticks or unticks approve-loops, or
// both. What is nil stays.
type UpdateMember struct {
	Meta         `json:"-"`
	Member       events.ID    `json:"memberId"`
	Role         *events.Role `json:"role"`
	ApproveLoops *bool        `json:"canApproveLoops"`
}

func (c UpdateMember) denial() events.CommandDenied {
	if c.Role == nil && c.ApproveLoops != nil {
		return denialOf(events.MemberApproveLoopsSet{}, c.Member)
	}
	return denialOf(events.MemberRoleChanged{}, c.Member)
}

// UpdateMember refuses to leave the workspace without an Owner, a change of an Owner or
// to one by anybody but an Owner, and whoever does not manage members. Invitations
// that the member could not send in the new role are withdrawn with it.
func (h *Handler) UpdateMember(ctx context.Context, c UpdateMember) (Result, error) {
	return h.carryWorkspace(ctx, c.Meta, c, func(at *work, w *aggregates.Workspace) (list []events.Event, err error) {
		return w.Update(c.Actor.ID, c.Member, c.Role, c.ApproveLoops, at.at)
	})
}

// RefreshMember tells a workspace what the asking person is called now, and their
// primary address.
type RefreshMember struct {
	Meta  `json:"-"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

// RefreshMember does nothing where the person is no member.
func (h *Handler) RefreshMember(ctx context.Context, c RefreshMember) (Result, error) {
	return h.carryWorkspace(ctx, c.Meta, c, func(_ *work, w *aggregates.Workspace) ([]events.Event, error) {
		return w.Present(c.Actor.ID, c.Name, c.Email)
	})
}

// RemoveMember takes a member out of the workspace.
type RemoveMember struct {
	Meta   `json:"-"`
	Member events.ID `json:"memberId"`
}

func (c RemoveMember) denial() events.CommandDenied {
	return denialOf(events.MemberRemoved{}, c.Member)
}

// RemoveMember refuses to leave the workspace without an Owner, and whoever may not
// change the member; members may remove themselves, which is to leave. Invitations that
// they sent are withdrawn with it.
func (h *Handler) RemoveMember(ctx context.Context, c RemoveMember) (Result, error) {
	return h.carryWorkspace(ctx, c.Meta, c, func(at *work, w *aggregates.Workspace) ([]events.Event, error) {
		return w.Remove(c.Actor.ID, c.Member, at.at)
	})
}
