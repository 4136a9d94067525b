package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/projections"
)

const (
	maxSets       = 256 // of what waiting jobs require, that are looked at together
	claimPage     = 64  // jobs that are looked at together
	claimsAtOnce  = 8
	claimRounds   = 200 // in a turn; the next turn goes on
	excludedForMs = 30_000
)

// A group is runners that meet the same requirements of waiting jobs, though each has labels of
// its own.
type group struct {
	keys    []string // of the requirements
	runners []*offer
}

// An offer is what one runner can take.
type offer struct {
	c                 *connection
	labels, exclusive []string
	free              int
	has               int
}

// claim gives jobs that wait to runners that have a free slot, until there are no more
// of the one or the other. What jobs require it goes through a page at a time, from where it
// stopped before: runners that are full with what stands at the beginning come to all of it.
func (f *farm) claim(ctx context.Context) error {
	whole, given := f.after == "", false // since the first page
	for range claimRounds {
		offers := f.offers()
		if len(offers) == 0 {
			return nil
		}
		sets, err := f.waiting(ctx)
		if err != nil {
			return err
		}
		for _, g := range groupsOf(sets, offers) {
			some, err := f.fill(ctx, g)
			if err != nil {
				return err
			}
			given = given || some
		}
		if len(sets) == maxSets {
			f.after = sets[maxSets-1].Key
			continue
		}
		f.after = ""
		if whole && !given {
			return nil
		}
		whole, given = true, false
	}
	f.nudge()
	return nil
}

// offers returns what the runners can take.
func (f *farm) offers() (list []*offer) {
	for _, c := range f.of() {
		c.mu.Lock()
		o := &offer{c, c.labels, c.excluded, c.free(), len(c.jobs)}
		c.mu.Unlock()
		if o.free > 0 {
			list = append(list, o)
		}
	}
	return list
}

// groupsOf sorts offers by which of the sets of requirements they meet, and leaves out those that
// meet none.
func groupsOf(sets []requirement, offers []*offer) (list []*group) {
	by := map[string]*group{}
	for _, o := range offers {
		var keys []string
		for _, s := range sets {
			if s.Required.Met(o.labels, o.exclusive) {
				keys = append(keys, s.Key)
			}
		}
		if len(keys) == 0 {
			continue
		}
		name := strings.Join(keys, "\x00")
		if by[name] == nil {
			by[name] = &group{keys: keys}
			list = append(list, by[name])
		}
		by[name].runners = append(by[name].runners, o)
	}
	return list
}

// fill gives a group of runners the jobs whose turn it is, and reports whether it gave any.
func (f *farm) fill(ctx context.Context, g *group) (given bool, err error) {
	slots, err := f.slots(ctx)
	if err != nil {
		return false, err
	}
	list, err := f.candidates(ctx, g, slots)
	if err != nil {
		return false, err
	}
	return f.lease(ctx, g.match(list, slots, f.d.Now()))
}

// A match is a job and the runner that is to have it.
type match struct {
	job  events.ID
	c    *connection
	slot int
}

// match finds a runner for each job, as long as slots are free: the one that has the
// least to do, and did not decline it not long before.
func (g *group) match(list []candidate, slots map[string]concurrency, now time.Time) (out []match) {
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
		o.free, o.has = o.free-1, o.has+1
		if slot > 0 {
			slots[job.Key] = slots[job.Key].with(slot, job.Limit)
		}
		out = append(out, match{job.Job, o.c, slot})
	}
	return out
}

func (g *group) runnerFor(job candidate, now time.Time) *offer {
	var list []*offer
	for _, o := range g.runners {
		refused := slices.Contains(job.Excluded, o.c.runner.ID) && now.Sub(job.QueuedAt) < excludedForMs*time.Millisecond
		if o.free > 0 && !refused {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(a, b *offer) int { return cmp.Compare(a.has, b.has) })
}

// lease gives jobs to runners, several at once, and tells the runners. Of a job that another
// process was faster to give nobody hears.
func (f *farm) lease(ctx context.Context, list []match) (given bool, err error) {
	var mu sync.Mutex
	got := map[events.ID][]events.ID{} // by runner
	var all errgroup.Group
	all.SetLimit(claimsAtOnce)
	for _, m := range list {
		all.Go(func() error {
			_, err := f.d.Commands.LeaseJob(ctx, commands.LeaseJob{
				Meta: system(f.workspace), Job: m.job, Runner: m.c.runner.ID, Slot: m.slot, Use: projections.Jobs{DB: f.d.DB}.KeyUse,
			})
			switch refused := fault.As(err); {
			case err == nil:
				mu.Lock()
				got[m.c.runner.ID] = append(got[m.c.runner.ID], m.job)
				mu.Unlock()
				f.d.counts.claimed.Add(1)
				return nil
			case errors.Is(err, aggregates.ErrJobTaken):
				return nil
			case refused != nil && refused.Kind == fault.Conflict: // the runner takes none
				m.c.pause()
				return nil
			}
			return fmt.Errorf("give job %s out: %w", m.job, err)
		})
	}
	err = all.Wait()
	for runner, jobs := range got {
		for _, c := range f.of(runner) { // it may have come anew, and its hello may have been too early to find them
			c.spend(len(jobs))
			c.given(jobs)
			f.d.deliver(ctx, c)
		}
	}
	return len(got) > 0, err
}

// pause keeps the runner from being given jobs until it is known what became of it.
func (c *connection) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocked = c.capacity
}

// spend counts jobs of a runner that takes only so many.
func (c *connection) spend(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left != nil {
		left := max(0, *c.left-n)
		c.left = &left
	}
}
