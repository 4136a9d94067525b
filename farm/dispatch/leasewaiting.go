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
	requirementPage = 256 // requirement sets per query
	leasePage       = 64  // candidates at once
	leasesAtOnce    = 8
	leaseRounds     = 200 // per runOnce; the next one continues
)

// A group is a set of runners that meet the same requirement sets, though their labels may differ.
type group struct {
	keys    []string // of the requirement sets
	runners []*offer
}

// An offer is the capacity that one runner has to give. free and assigned change as jobs are
// matched to it.
type offer struct {
	c                 *connection
	labels, exclusive []string
	free              int
	assigned          int
}

// leaseWaiting leases waiting jobs to runners with free slots until either runs out. It pages through the
// requirement sets, resuming where the last round stopped, so that runners busy with the first sets
// eventually reach the others. It ends when no job has left the queue in a full pass.
func (f *farm) leaseWaiting(ctx context.Context) error {
	fromStart, leftQueue := f.requirementCursor == "", false // whether this pass began at the first page, and a job has left the queue
	for range leaseRounds {
		offers := f.offers()
		if len(offers) == 0 {
			return nil
		}
		sets, err := f.waitingRequirements(ctx)
		if err != nil {
			return err
		}
		for _, g := range groupsOf(sets, offers) {
			left, err := f.leaseToGroup(ctx, g)
			if err != nil {
				return err
			}
			leftQueue = leftQueue || left
		}
		next := ""
		if len(sets) == requirementPage {
			next = sets[requirementPage-1].Key
		}
		if f.requirementCursor = next; next != "" {
			continue
		}
		if fromStart && !leftQueue {
			return nil
		}
		fromStart, leftQueue = true, false
	}
	f.nudge()
	return nil
}

// offers returns the runners that have a free slot.
func (f *farm) offers() (list []*offer) {
	for _, c := range f.connectionsOf() {
		u, free := c.freeSlots()
		if free > 0 {
			list = append(list, &offer{c, u.labels, u.exclusive, free, u.held})
		}
	}
	return list
}

// groupsOf groups offers by the requirement sets that they meet. Offers that meet none are left
// out.
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

// leaseToGroup leases the next jobs to a group of runners, and reports whether any of them has left the queue.
func (f *farm) leaseToGroup(ctx context.Context, g *group) (leftQueue bool, err error) {
	slots, err := f.usedSlots(ctx)
	if err != nil {
		return false, err
	}
	list, err := f.candidates(ctx, g, slots)
	if err != nil {
		return false, err
	}
	return f.lease(ctx, g.match(list, slots, f.d.Now()))
}

// A match is a job and the runner that will get it. slot is the job's slot under its concurrency
// key, 0 without a key.
type match struct {
	job  events.ID
	c    *connection
	slot int
}

// match picks a runner for each job whose concurrency key has a free slot: the one with the fewest
// jobs that has not declined this job recently.
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
		o.free, o.assigned = o.free-1, o.assigned+1
		if slot > 0 {
			slots[job.Key] = slots[job.Key].withSlot(slot, job.Limit)
		}
		out = append(out, match{job.Job, o.c, slot})
	}
	return out
}

// freeSlots returns how many jobs the group's runners can take.
func (g *group) freeSlots() (n int) {
	for _, o := range g.runners {
		n += o.free
	}
	return n
}

func (g *group) runnerIDs() []events.ID {
	ids := []events.ID{}
	for _, o := range g.runners {
		ids = append(ids, o.c.runner.ID)
	}
	return ids
}

func (g *group) runnerFor(job candidate, now time.Time) *offer {
	var list []*offer
	for _, o := range g.runners {
		if o.free > 0 && !job.excludes(o.c.runner.ID, now) {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(a, b *offer) int { return cmp.Compare(a.assigned, b.assigned) })
}

// lease appends the leases, several at once, and delivers the jobs. A job that another process has
// leased first is skipped silently, and one whose events cannot be used with a warning. leftQueue is true
// if any of the jobs has left the queue.
func (f *farm) lease(ctx context.Context, list []match) (leftQueue bool, err error) {
	var mu sync.Mutex                  // guards leftQueue and got
	got := map[events.ID][]events.ID{} // by runner
	var all errgroup.Group
	all.SetLimit(leasesAtOnce)
	for _, m := range list {
		all.Go(func() error {
			_, err := f.d.Commands.LeaseJob(ctx, commands.LeaseJob{
				Meta: commands.SystemMeta(f.workspace), Job: m.job, Runner: m.c.runner.ID, Slot: m.slot, Use: projections.Jobs{DB: f.d.DB}.KeyUse,
			})
			switch refused := fault.As(err); {
			case err == nil:
				mu.Lock()
				leftQueue, got[m.c.runner.ID] = true, append(got[m.c.runner.ID], m.job)
				mu.Unlock()
				f.d.counts.leased.Add(1)
				return nil
			case errors.Is(err, aggregates.ErrJobDropped):
				mu.Lock()
				leftQueue = true
				mu.Unlock()
				return nil
			case errors.Is(err, aggregates.ErrJobTaken):
				return nil
			case refused != nil && refused.Kind == fault.Conflict: // the runner's state forbids it
				m.c.slots.pause()
				return nil
			case refused != nil && refused.Kind == fault.Unavailable:
				f.d.warn("lease a job", err, "job", m.job)
				return nil
			}
			return fmt.Errorf("lease job %s: %w", m.job, err)
		})
	}
	err = all.Wait()
	for runner, jobs := range got {
		for _, c := range f.connectionsOf(runner) { // it may have reconnected, and its hello may have come before the lease
			c.slots.countAgainstLimit(len(jobs))
			c.slots.addPending(jobs)
			f.d.deliver(ctx, c)
		}
	}
	return leftQueue, err
}
