package work

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

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
	*shared
	of func(request any) (events.CommandDenied, bool) // the record of a refusal of a command, if it is recorded

	mu       sync.Mutex // held from checking a denial until it is noted
	recent   *lru.Cache[denial, time.Time]
	limiters *lru.Cache[denialSubject, *rate.Limiter] // denials are stored for ever, so the number that an actor can cause is limited
	omitted  atomic.Int64
}

func newDenials(s *shared, of func(request any) (events.CommandDenied, bool)) *denials {
	return &denials{
		shared: s, of: of,
		recent: lru.New[denial, time.Time](maxRecentDenials), limiters: lru.New[denialSubject, *rate.Limiter](maxRecentDenials),
	}
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

// recordIfRefused records a refused command if refusals of it are recorded and it was refused for lack of a right or
// because of a rule.
func (d *denials) recordIfRefused(ctx context.Context, m Meta, request any, refusal error) error {
	f := fault.As(refusal)
	if f == nil || f.Kind != fault.Denied && f.Kind != fault.Conflict {
		return nil
	}
	e, ok := d.of(request)
	if !ok {
		return nil
	}
	return d.RecordDenial(ctx, m, e, f)
}

// RecordDenial records that somebody was refused a command, by a guard or by the command itself. e is the record without
// the refusal's code.
// The same denial of the same person is recorded once a minute, and on average at most 30 denials a
// minute of one person, and 300 of all in a workspace. OmittedDenials says how many more there were.
func (d *denials) RecordDenial(ctx context.Context, m Meta, e events.CommandDenied, refusal error) error {
	f := fault.As(refusal)
	if f == nil {
		return nil
	}
	if e.Code = f.Code; len(e.Name) > maxDeniedName || input.HasToken(e.Name) {
		e.Name = "" // the guard refuses requests before their fields are checked
	}
	now := d.now()
	if !d.shouldRecord(denial{denialSubject{m.Workspace, m.Actor.ID}, e}, now) {
		return nil
	}
	_, err := d.log.Append(ctx, &events.Commit{
		Workspace: m.Workspace, Envelope: m.Envelope, At: now,
		Writes: []events.Write{{Stream: events.NewID(now), Events: []events.Event{e}}},
	})
	return fault.Wrap(err, "record the refusal of %s", e.Action)
}

// OmittedDenials returns how many denials were not recorded because there were too many.
func (d *denials) OmittedDenials() int64 { return d.omitted.Load() }

type denial struct {
	by   denialSubject
	what events.CommandDenied
}

// A denialSubject is an actor in a workspace. Without an actor it stands for all in that
// workspace.
type denialSubject struct{ workspace, actor events.ID }
