package commands

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/input"
	"svc/lru"
)

const (
	maxRecentDenials      = 10_000
	denialRepeatAfter     = time.Minute     // before the same denial is recorded again
	denialBurst           = 30              // burst of one actor in a workspace
	denialInterval        = 2 * time.Second // between records of one actor after the burst
	workspaceDenialFactor = 10              // factor for all actors of a workspace together
	maxDeniedName         = utf8.UTFMax * input.MaxName
)

// denials remembers recent denials.
type denials struct {
	mu       sync.Mutex // held from checking a denial until it is noted
	recent   *lru.Cache[denial, time.Time]
	limiters *lru.Cache[denialSubject, *rate.Limiter] // denials are stored for ever, so the number that an actor can cause is limited
	omitted  atomic.Int64
}

func newDenials() *denials {
	return &denials{recent: lru.New[denial, time.Time](maxRecentDenials), limiters: lru.New[denialSubject, *rate.Limiter](maxRecentDenials)}
}

// shouldRecord reports whether to record a denial. If so, it remembers the denial; if not, it
// counts it as omitted.
func (d *denials) shouldRecord(key denial, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, known := d.recent.Get(key)
	if known && now.Sub(last) < denialRepeatAfter || !d.allow(key.by, now, 1) ||
		!d.allow(denialSubject{workspace: key.by.workspace}, now, workspaceDenialFactor) {
		d.omitted.Add(1)
		return false
	}
	d.recent.Add(key, now)
	return true
}

// allow takes one from what may be recorded of an actor or, if by has no actor, of a whole
// workspace. The limit is factor times that of an actor.
func (d *denials) allow(by denialSubject, now time.Time, factor int) bool {
	limiter, ok := d.limiters.Get(by)
	if !ok {
		limiter = rate.NewLimiter(rate.Every(denialInterval/time.Duration(factor)), denialBurst*factor)
		d.limiters.Add(by, limiter)
	}
	return limiter.AllowN(now, 1)
}

// A Deniable command is one whose refusal is recorded, whether its route's guard or its
// aggregate refuses it. denial returns the record, without the refusal's code.
type Deniable interface {
	denial() events.CommandDenied
}

// recordIfRefused records a refused command if it is Deniable and was refused for lack of a right or
// because of a rule. The refusal stands even if recording fails.
func (h *Handler) recordIfRefused(ctx context.Context, m Meta, request any, refusal error) {
	d, ok := request.(Deniable)
	f := fault.As(refusal)
	switch {
	case !ok || f == nil || f.Kind != fault.Denied && f.Kind != fault.Conflict:
		return
	case f.Code == aggregates.ErrSlugTaken.Code: // that a slug exists elsewhere is not about rights
		return
	}
	if err := h.RecordDenial(ctx, m, d, f); err != nil {
		h.logger.WarnContext(ctx, "a refused command was not recorded", "workspace", m.Workspace, "actor", m.Actor.ID, "err", err)
	}
}

// RecordDenial records that somebody was refused a command, by a guard or by the command itself.
// The same denial of the same person is recorded once a minute, and on average at most 30 denials a
// minute of one person, and 300 of all in a workspace. [Handler.OmittedDenials] says how many more there were.
func (h *Handler) RecordDenial(ctx context.Context, m Meta, command Deniable, refusal error) error {
	f := fault.As(refusal)
	if f == nil {
		return nil
	}
	e := command.denial()
	if e.Code = f.Code; len(e.Name) > maxDeniedName || input.HasToken(e.Name) {
		e.Name = "" // the guard refuses requests before their fields are checked
	}
	now := h.now()
	if !h.denied.shouldRecord(denial{denialSubject{m.Workspace, m.Actor.ID}, e}, now) {
		return nil
	}
	_, err := h.log.Append(ctx, &events.Commit{
		Workspace: m.Workspace, Envelope: m.Envelope, At: now,
		Writes: []events.Write{{Stream: events.NewID(now), Events: []events.Event{e}}},
	})
	if err != nil {
		return fmt.Errorf("record the refusal of %s: %w", e.Action, err)
	}
	return nil
}

// OmittedDenials returns how many denials were not recorded because there were too many.
func (h *Handler) OmittedDenials() int64 { return h.denied.omitted.Load() }

type denial struct {
	by   denialSubject
	what events.CommandDenied
}

// A denialSubject is an actor in a workspace. Without an actor it stands for all in that
// workspace.
type denialSubject struct{ workspace, actor events.ID }

// denialOf returns the record of a refused command that would have caused e.
func denialOf(e events.Event, target events.ID) events.CommandDenied {
	return events.CommandDenied{Action: e.Kind(), Target: target}
}
