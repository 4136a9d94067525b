package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	rules "svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/queue"
	"svc/fault"
)

const (
	leasesAtOnce = 8
	leaseRounds  = 200 // per runOnce; the next one continues
)

// leaseWaiting leases waiting jobs to runners with free slots until either runs out. It goes through the
// requirement sets, resuming where the last round stopped, so that runners busy with the first sets
// eventually reach the others. It ends when no job has left the queue in a full pass.
func (f *farm) leaseWaiting(ctx context.Context) error {
	fromStart, leftQueue := f.waiting.AtStart(), false // whether this pass began at the first page, and a job has left the queue
	for range leaseRounds {
		offers := f.offers()
		if len(offers) == 0 {
			return nil
		}
		sets, err := f.waiting.Requirements(ctx)
		if err != nil {
			return err
		}
		for _, g := range queue.Groups(sets, offers) {
			left, err := f.leaseToGroup(ctx, g)
			if err != nil {
				return err
			}
			leftQueue = leftQueue || left
		}
		if f.waiting.Advance(sets); !f.waiting.AtStart() {
			continue
		}
		if fromStart && !leftQueue {
			return nil
		}
		fromStart, leftQueue = true, false
	}
	f.wake()
	return nil
}

// offers returns the runners that have a free slot.
func (f *farm) offers() (list []*queue.Offer) {
	for _, c := range f.connectionsOf() {
		u, free := c.freeSlots()
		if free > 0 {
			list = append(list, &queue.Offer{Runner: c.runner.ID, Labels: u.labels, Exclusive: u.exclusive, Free: free, Held: u.held})
		}
	}
	return list
}

// leaseToGroup leases the next jobs to a group of runners, and reports whether any of them has left the queue.
func (f *farm) leaseToGroup(ctx context.Context, g *queue.Group) (leftQueue bool, err error) {
	list, err := f.waiting.Match(ctx, g)
	if err != nil {
		return false, err
	}
	return f.lease(ctx, list)
}

// lease appends the leases, several at once, and delivers the jobs. A job that another process has
// leased first is skipped silently, and one whose events cannot be used with a warning. leftQueue is true
// if any of the jobs has left the queue.
func (f *farm) lease(ctx context.Context, list []queue.Match) (leftQueue bool, err error) {
	var mu sync.Mutex                  // guards leftQueue and got
	got := map[events.ID][]events.ID{} // by runner
	var all errgroup.Group
	all.SetLimit(leasesAtOnce)
	for _, m := range list {
		all.Go(func() error {
			_, err := f.d.Commands.LeaseJob(ctx, commands.LeaseJob{
				Meta: commands.SystemMeta(f.workspace), Job: m.Job, Runner: m.Runner, Slot: m.Slot,
			})
			switch refused := fault.As(err); {
			case err == nil:
				mu.Lock()
				leftQueue, got[m.Runner] = true, append(got[m.Runner], m.Job)
				mu.Unlock()
				f.d.counts.leased.Add(1)
				return nil
			case errors.Is(err, rules.ErrJobDropped):
				mu.Lock()
				leftQueue = true
				mu.Unlock()
				return nil
			case errors.Is(err, rules.ErrJobTaken):
				return nil
			case refused != nil && refused.Kind == fault.Conflict: // the runner's state forbids it
				for _, c := range f.connectionsOf(m.Runner) {
					c.slots.pause()
				}
				return nil
			case refused != nil && refused.Kind == fault.Unavailable:
				f.d.warn("lease a job", err, "job", m.Job)
				return nil
			}
			return fmt.Errorf("lease job %s: %w", m.Job, err)
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
