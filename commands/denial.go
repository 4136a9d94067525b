package commands

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
)

const (
	denialsRemembered = 10_000
	denialAgain       = time.Minute // before the same denial is recorded again
	denialsAtOnce     = 30          // of one actor in a workspace, and then
	denialPause       = 2 * time.Second
	workspaceDenials  = 10 // times as many of all actors in a workspace together
)

// denials remembers what was recorded a moment ago, and counts what was not.
type denials struct {
	mu      sync.Mutex // from the look at a denial to its note
	noted   *lru.Cache[denial, time.Time]
	budget  *lru.Cache[denied, *rate.Limiter] // the log is for ever: nobody fills it by asking for what they may not have
	omitted omitted
}

func newDenials() *denials {
	noted, err := lru.New[denial, time.Time](denialsRemembered)
	if err != nil {
		panic(err) // only for a size below one
	}
	budget, err := lru.New[denied, *rate.Limiter](denialsRemembered)
	if err != nil {
		panic(err)
	}
	return &denials{noted: noted, budget: budget, omitted: omitted{}}
}

// note reports whether a denial is to be recorded, and notes that it is or counts
// it as left out.
func (d *denials) note(key denial, actor events.Actor, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, known := d.noted.Get(key)
	if known && now.Sub(last) < denialAgain || !d.allow(key.by, now, 1) ||
		!d.allow(denied{workspace: key.by.workspace}, now, workspaceDenials) {
		d.omitted.add(key.by, omission{actor: actor, count: 1, since: now, until: now})
		return false
	}
	d.noted.Add(key, now)
	return true
}

// allow takes one from what may be recorded of somebody, or of all in a workspace
// if that is nobody, which is so many times as much.
func (d *denials) allow(by denied, now time.Time, times int) bool {
	budget, ok := d.budget.Get(by)
	if !ok {
		budget = rate.NewLimiter(rate.Every(denialPause/time.Duration(times)), denialsAtOnce*times)
		d.budget.Add(by, budget)
	}
	return budget.AllowN(now, 1)
}

// A Deniable command is one whose refusal is recorded, be it by the guard of its
// route or by its aggregate. It says under which kind of event, and what that would
// have happened to.
type Deniable interface {
	denial() events.CommandDenied
}

// deny records that a command was refused, if refusals of its kind are
// recorded and this is one: a right that is lacking, or a rule in the way.
// The refusal stands whether or not that succeeds.
func (h *Handler) deny(ctx context.Context, m Meta, request any, refusal error) {
	d, ok := request.(Deniable)
	f := fault.As(refusal)
	switch {
	case !ok || f == nil || f.Kind != fault.Denied && f.Kind != fault.Conflict:
		return
	case f.Code == aggregates.ErrSlugTaken.Code: // another workspace's name is no matter of rights
		return
	}
	_ = h.Deny(ctx, m, d, f) // best effort: the caller hears of the refusal, not of this
}

// Deny records that somebody was refused a command: here, or by who let them in.
// The same denial of the same person is recorded once a minute, 30 a minute of
// all that they are denied, and 300 a minute of all in a workspace; how many more
// there were [Handler.Run] records.
func (h *Handler) Deny(ctx context.Context, m Meta, command Deniable, refusal error) error {
	f := fault.As(refusal)
	if f == nil {
		return nil
	}
	e := command.denial()
	e.Code = f.Code
	now := h.now()
	if !h.denied.note(denial{denied{m.Workspace, m.Actor.ID}, e}, m.Actor, now) {
		return nil
	}
	_, err := h.log.Append(ctx, &events.Commit{
		Workspace: m.Workspace, Envelope: m.Envelope, At: now,
		Writes: []events.Write{{Stream: events.NewID(now), Events: []events.Event{e}}},
	})
	return err
}

type denial struct {
	by   denied
	what events.CommandDenied
}

// A denied is who was denied something, and in which workspace.
type denied struct{ workspace, actor events.ID }

// denialOf is the denial of a command that asks for an event.
func denialOf(e events.Event, target events.ID) events.CommandDenied {
	return events.CommandDenied{Action: e.Kind(), Target: target}
}
