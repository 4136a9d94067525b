package commands

import (
	"context"

	"svc/aggregates"
	"svc/commands/work"
	"svc/events"
)

// AddMember makes a person a member without an invitation. Only the system issues it.
type AddMember struct {
	Meta   `json:"-"`
	Member events.ID   `json:"memberId"`
	User   events.ID   `json:"userId"`
	Email  string      `json:"email"`
	Name   string      `json:"name,omitempty"`
	Role   events.Role `json:"role"`
}

// AddMember refuses a person who is a member already.
func (h *Handler) AddMember(ctx context.Context, c AddMember) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace, func(_ *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
		return ws.Join(events.MemberJoined{Member: c.Member, User: c.User, Email: c.Email, Name: c.Name, Role: c.Role})
	}))
}

// UpdateMember changes a member's role, their approve-loops setting, or both. nil leaves a
// value as it is.
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

// UpdateMember refuses to leave the workspace without an Owner, to change or make an Owner
// unless an Owner asks, and callers who may not manage members. It revokes invitations that
// the member could not send in the new role.
func (h *Handler) UpdateMember(ctx context.Context, c UpdateMember) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace, func(w *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
		return ws.Update(c.Actor.ID, c.Member, c.Role, c.ApproveLoops, w.Now)
	}))
}

// RefreshMember records the actor's current name and primary address in a workspace.
type RefreshMember struct {
	Meta  `json:"-"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

func (RefreshMember) limit() *limit { return onceEach }

// RefreshMember does nothing if the actor is not a member.
func (h *Handler) RefreshMember(ctx context.Context, c RefreshMember) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace, func(_ *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
		return ws.RefreshMember(c.Actor.ID, c.Name, c.Email)
	}))
}

// RemoveMember removes a member from the workspace.
type RemoveMember struct {
	Meta   `json:"-"`
	Member events.ID `json:"memberId"`
}

func (c RemoveMember) denial() events.CommandDenied {
	return denialOf(events.MemberRemoved{}, c.Member)
}

func (RemoveMember) limit() *limit { return ending }

// RemoveMember refuses to leave the workspace without an Owner, and callers who may not
// change the member. Members may remove themselves, which counts as leaving. It revokes
// invitations that the member sent.
func (h *Handler) RemoveMember(ctx context.Context, c RemoveMember) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace, func(w *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
		return ws.Remove(c.Actor.ID, c.Member, w.Now)
	}))
}
