package commands

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"svc/events"
	"svc/fault"
)

const (
	denialsRemembered = 10_000
	denialAgain       = time.Minute // before the same denial is recorded again
)

// newDenials remembers what was recorded a moment ago.
func newDenials() *lru.Cache[denial, time.Time] {
	cache, err := lru.New[denial, time.Time](denialsRemembered)
	if err != nil {
		panic(err) // only for a size below one
	}
	return cache
}

// A deniable command is one whose refusal is recorded. It names the kind of
// the event that it asks for, and what that would happen to.
type deniable interface {
	wants() (kind string, target events.ID)
}

// deny records that a command was refused, if refusals of its kind are
// recorded and this is one: a right that is lacking, or a rule in the way.
// The refusal stands whether or not that succeeds.
func (h *Handler) deny(ctx context.Context, o Order, request any, refusal error) {
	d, ok := request.(deniable)
	f := fault.As(refusal)
	if !ok || f == nil || f.Kind != fault.Denied && f.Kind != fault.Conflict {
		return
	}
	kind, target := d.wants()
	_ = h.RecordDenial(ctx, o, kind, target, f.Code) // best effort: the caller hears of the refusal, not of this
}

// RecordDenial records that somebody asked for an event of a kind that would
// have happened to target, and was refused with a code. The same denial of the
// same person is recorded once a minute.
func (h *Handler) RecordDenial(ctx context.Context, o Order, kind string, target events.ID, code string) error {
	e := events.CommandDenied{Action: kind, Target: target, Code: code}
	now := h.now()
	key := denial{o.Workspace, o.Actor.ID, e}
	if last, ok := h.denied.Get(key); ok && now.Sub(last) < denialAgain {
		return nil
	}
	h.denied.Add(key, now)
	_, err := h.log.Append(ctx, &events.Commit{
		Workspace: o.Workspace, Envelope: o.Envelope, At: now,
		Writes: []events.Write{{Stream: events.NewID(now), Events: []events.Event{e}}},
	})
	return err
}

type denial struct {
	workspace, actor events.ID
	what             events.CommandDenied
}

func (c UpdateMember) wants() (string, events.ID) {
	if c.Role == nil {
		return events.MemberApproveLoopsSet{}.Kind(), c.Member
	}
	return events.MemberRoleChanged{}.Kind(), c.Member
}

func (c RemoveMember) wants() (string, events.ID) { return events.MemberRemoved{}.Kind(), c.Member }
func (c RenameWorkspace) wants() (string, events.ID) {
	return events.WorkspaceRenamed{}.Kind(), c.Workspace
}
func (c SendInvitation) wants() (string, events.ID) {
	return events.InvitationSent{}.Kind(), events.ID{}
}
func (c ResendInvitation) wants() (string, events.ID) {
	return events.InvitationResent{}.Kind(), c.Invitation
}
func (c RevokeInvitation) wants() (string, events.ID) {
	return events.InvitationRevoked{}.Kind(), c.Invitation
}
func (c AcceptInvitation) wants() (string, events.ID) {
	return events.InvitationAccepted{}.Kind(), c.Invitation
}
func (c RejectInvitation) wants() (string, events.ID) {
	return events.InvitationRejected{}.Kind(), c.Invitation
}
func (c CreateServiceAccount) wants() (string, events.ID) {
	return events.ServiceAccountCreated{}.Kind(), events.ID{}
}
func (c RotateServiceAccount) wants() (string, events.ID) {
	return events.ServiceAccountRotated{}.Kind(), c.Account
}
func (c RevokeServiceAccount) wants() (string, events.ID) {
	return events.ServiceAccountRevoked{}.Kind(), c.Account
}
