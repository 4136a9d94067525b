package queue

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	requirementPage = 256 // requirement sets per query
	matchPage       = 64  // candidates at once
)

// Waiting is the queue of one workspace. It pages through the requirement sets of the waiting jobs, so that runners busy
// with the first sets eventually reach the others. One goroutine uses it.
type Waiting struct {
	DB        *pgxpool.Pool
	Workspace events.ID
	Now       func() time.Time

	cursor string // last requirement set that was looked at; "" starts over
}

// AtStart reports whether the next page of requirements is the first.
func (w *Waiting) AtStart() bool { return w.cursor == "" }

// Advance goes on to the page after that of sets, or to the first one after the last.
func (w *Waiting) Advance(sets []Requirement) {
	w.cursor = ""
	if len(sets) == requirementPage {
		w.cursor = sets[requirementPage-1].Key
	}
}

// An Offer is the capacity that one runner has to give. Free and Held change as jobs are
// matched to it.
type Offer struct {
	Runner            events.ID
	Labels, Exclusive []string
	Free              int // how many more jobs it takes
	Held              int // jobs that it was told of
}

// A Group is a set of runners that meet the same requirement sets, though their labels may differ.
type Group struct {
	keys    []string // of the requirement sets
	runners []*Offer
}

// Groups groups offers by the requirement sets that they meet. Offers that meet none are left
// out.
func Groups(sets []Requirement, offers []*Offer) (list []*Group) {
	by := map[string]*Group{}
	for _, o := range offers {
		var keys []string
		for _, s := range sets {
			if s.Required.Met(o.Labels, o.Exclusive) {
				keys = append(keys, s.Key)
			}
		}
		if len(keys) == 0 {
			continue
		}
		name := strings.Join(keys, "\x00")
		if by[name] == nil {
			by[name] = &Group{keys: keys}
			list = append(list, by[name])
		}
		by[name].runners = append(by[name].runners, o)
	}
	return list
}

// A Match is a job and the runner that will get it. Slot is the job's slot under its concurrency
// key, 0 without a key.
type Match struct {
	Job, Runner events.ID
	Slot        int
}

// Match returns the next jobs for a group of runners.
func (w *Waiting) Match(ctx context.Context, g *Group) ([]Match, error) {
	slots, err := w.usedSlots(ctx)
	if err != nil {
		return nil, err
	}
	list, err := w.candidates(ctx, g, slots)
	if err != nil {
		return nil, err
	}
	return g.match(list, slots, w.Now()), nil
}

// match picks a runner for each job whose concurrency key has a free slot: the one with the fewest
// jobs that has not declined this job recently.
func (g *Group) match(list []candidate, slots map[string]concurrency, now time.Time) (out []Match) {
	for _, job := range list {
		slot := 0
		if job.Key != "" {
			if slot = slots[job.Key].freeSlot(job.Limit); slot == 0 {
				continue
			}
		}
		o := g.runnerFor(job, now)
		if o == nil {
			continue
		}
		o.Free, o.Held = o.Free-1, o.Held+1
		if slot > 0 {
			slots[job.Key] = slots[job.Key].withSlot(slot, job.Limit)
		}
		out = append(out, Match{job.Job, o.Runner, slot})
	}
	return out
}

// freeSlots returns how many jobs the group's runners can take.
func (g *Group) freeSlots() (n int) {
	for _, o := range g.runners {
		n += o.Free
	}
	return n
}

func (g *Group) runnerIDs() []events.ID {
	ids := []events.ID{}
	for _, o := range g.runners {
		ids = append(ids, o.Runner)
	}
	return ids
}

func (g *Group) runnerFor(job candidate, now time.Time) *Offer {
	var list []*Offer
	for _, o := range g.runners {
		if o.Free > 0 && !job.excludes(o.Runner, now) {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(a, b *Offer) int { return cmp.Compare(a.Held, b.Held) })
}
