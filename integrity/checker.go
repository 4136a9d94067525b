// Package integrity repeatedly verifies that each log is what was signed, and that each row of a
// view and each unique key is what its log says.
//
// An attacker who can write to the database can change both, but does not have the signing key. The
// package reports differences and repairs nothing. It works for a small share of the time, so a round
// may take hours on a large database. If a process ends during a round, another one checks again where
// problems were found, and continues the round. A lease decides which process compares. Every process
// reports it if there has been no progress for some intervals.
package integrity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/projections"
	"svc/projections/fold"
	"svc/proof"
)

const (
	// Leadership is the name under which one process is elected to compare.
	Leadership = "integrity"

	workShare          = 20               // one part in workShare of the time is spent working
	maxPause           = 30 * time.Second // longest pause after a piece of work
	page               = 1000             // logs listed by one query
	maxRemembered      = 1000             // workspaces whose problems are remembered; further ones are only logged
	leaseCheckInterval = time.Second
	maxFirstDelay      = time.Minute // longest delay of the first round, since a starting process is busy
)

var errLost = errors.New("another process is comparing")

// A Checker checks all logs in rounds. Any number of processes may have one. Only the leader works and
// reports results.
type Checker struct {
	db     *pgxpool.Pool
	prover *proof.Prover
	leads  func(lease string) bool
	every  time.Duration
	log    *slog.Logger

	// Only for Run.
	count     int64              // of writes of the progress, as read last
	movedAt   time.Time          // when that count was first read
	led       bool               // this process has compared since it became the leader
	written   time.Time          // time of the last write of the progress
	last      events.ID          // the last workspace that was compared in this round
	seen      map[events.ID]bool // workspaces with problems in this round
	inherited []events.ID        // workspaces in which another process has found problems, not checked here yet
	fullRound bool               // this process has done all of this round so far
	verified  map[events.ID]bool // workspaces whose logs this process has verified, in any round

	overdue atomic.Bool
	mu      sync.Mutex
	found   map[events.ID]problems
}

// New returns a checker that does nothing until Run. every is the time between the end of a round and
// the beginning of the next; if it is 0, there are no rounds.
func New(db *pgxpool.Pool, prover *proof.Prover, leads func(lease string) bool, every time.Duration, log *slog.Logger) *Checker {
	return &Checker{
		db: db, prover: prover, leads: leads, every: every, log: log, found: map[events.ID]problems{}, seen: map[events.ID]bool{},
		verified: map[events.ID]bool{},
	}
}

// Overdue reports whether no process has made progress for some intervals.
func (c *Checker) Overdue() bool { return c.overdue.Load() }

// DifferingRows returns the number of rows that differ from the log, by view.
func (c *Checker) DifferingRows() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := map[string]int{}
	for _, w := range c.found {
		for view, rows := range w.rows {
			n[view] += rows
		}
	}
	return n
}

// BadLogs returns the number of logs that are not what was signed.
func (c *Checker) BadLogs() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.found {
		if w.badRecord != "" {
			n++
		}
	}
	return n
}

// Uncompared returns the number of workspaces in which something could not be compared.
func (c *Checker) Uncompared() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.found {
		if w.uncompared {
			n++
		}
	}
	return n
}

// Run does rounds until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	if c.every <= 0 {
		return
	}
	for wait := min(c.every, maxFirstDelay); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = leaseCheckInterval
		leads, err := c.takesTurn(ctx)
		if err == nil && leads {
			if err = c.round(ctx); err == nil {
				wait = c.every
			}
		}
		if err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "compare logs, views and keys", "err", err)
		}
	}
}

// takesTurn reports whether this process is to compare now. One that has just become the leader continues where the
// process before it has stopped.
func (c *Checker) takesTurn(ctx context.Context) (bool, error) {
	p, err := c.watch(ctx)
	switch {
	case err != nil:
		return false, err
	case !c.leads(Leadership):
		c.mu.Lock()
		clear(c.found) // another process reports what it finds
		c.mu.Unlock()
		c.led, c.fullRound = false, false
		return false, nil
	case !c.led:
		c.led, c.last, c.inherited = true, p.Last, p.Found
	}
	return true, nil
}

// round checks all logs after the last one that was checked, and then workspaces that have rows but
// no log.
func (c *Checker) round(ctx context.Context) error {
	if c.last.IsZero() {
		c.seen, c.fullRound = map[events.ID]bool{}, true
	}
	if err := c.writeProgress(ctx); err != nil {
		return err
	}
	for ; len(c.inherited) > 0; c.inherited = c.inherited[1:] {
		if err := c.checkWorkspace(ctx, c.inherited[0]); err != nil {
			return err
		}
	}
	for {
		rows, _ := c.db.Query(ctx, `select workspace_id from logs where workspace_id > $1 order by workspace_id limit $2`, c.last, page)
		list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
		if err != nil {
			return fmt.Errorf("list logs: %w", err)
		}
		for _, workspace := range list {
			if err := c.checkWorkspace(ctx, workspace); err != nil {
				return err
			}
			c.last = workspace
		}
		if len(list) < page {
			break
		}
	}
	if err := c.checkGone(ctx); err != nil {
		return err
	}
	orphaned, err := fold.OrphanedWorkspaces(ctx, c.db, projections.All(), c.pause)
	if err != nil {
		return err
	}
	for _, workspace := range orphaned {
		if err := c.checkWorkspace(ctx, workspace); err != nil {
			return err
		}
	}
	if c.fullRound {
		c.mu.Lock()
		maps.DeleteFunc(c.found, func(workspace events.ID, _ problems) bool { return !c.seen[workspace] }) // the problem is gone
		c.mu.Unlock()
	}
	c.last = events.ID{}
	return c.writeProgress(ctx)
}

// checkGone checks the workspaces that this process has verified in an earlier round and that have no log any more.
func (c *Checker) checkGone(ctx context.Context) error {
	for list := range slices.Chunk(slices.Collect(maps.Keys(c.verified)), page) {
		began := time.Now()
		rows, _ := c.db.Query(ctx, `
			select id from unnest($1::uuid[]) k (id) where not exists (select from logs where workspace_id = id)`, list)
		gone, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
		if err != nil {
			return fmt.Errorf("look for logs that are gone: %w", err)
		}
		for _, workspace := range gone {
			if err := c.checkWorkspace(ctx, workspace); err != nil {
				return err
			}
		}
		if err := c.pause(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// writeProgress tells other processes what this one has compared.
func (c *Checker) writeProgress(ctx context.Context) error {
	c.written = time.Now()
	return writeProgress(ctx, c.db, c.last, c.affected())
}

// affected returns the workspaces in which this process or the one before it has found problems, up to a limit.
func (c *Checker) affected() []events.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.AppendSeq(slices.Clone(c.inherited), maps.Keys(c.found))
	slices.SortFunc(list, func(a, b events.ID) int { return bytes.Compare(a[:], b[:]) })
	list = slices.Compact(list)
	return list[:min(len(list), maxRemembered)]
}

// checkWorkspace checks one workspace. Whatever cannot be compared is reported and tried again in the next round.
// The error is nil unless the whole round has to end, as when the database is unreachable.
func (c *Checker) checkWorkspace(ctx context.Context, workspace events.ID) error {
	began := time.Now()
	step := func(int64, int64) { _ = c.pause(ctx, time.Since(began)); began = time.Now() }
	var o outcome
	if o.report, o.verifyErr = c.prover.Verify(ctx, workspace, "", step); o.verifyErr != nil && c.roundFails(ctx) {
		return o.verifyErr
	}
	gone := o.report.Head == 0 && c.verified[workspace] && o.verifyErr == nil
	if o.report.Bad != nil || gone {
		purged, err := c.prover.Purged(ctx, workspace)
		if err != nil {
			return err
		}
		if purged {
			delete(c.verified, workspace)
			return nil
		}
	}
	if o.report.Head > 0 {
		c.verified[workspace] = true
	} else if gone && o.report.Bad == nil {
		o.report.Bad = &proof.Bad{Seq: 1, Reason: "the log is gone, which this process has verified before"}
	}
	if err := c.pause(ctx, time.Since(began)); err != nil {
		return err
	}
	o.compared, o.compareErr = fold.Compare(ctx, c.db, projections.All(), workspace, c.pause)
	if o.compareErr != nil && c.roundFails(ctx) {
		return o.compareErr
	}
	c.record(ctx, workspace, o)
	return nil
}

// roundFails reports whether an error concerns the whole round rather than one log.
func (c *Checker) roundFails(ctx context.Context) bool {
	return ctx.Err() != nil || !c.leads(Leadership) || c.db.Ping(ctx) != nil
}

// pause sleeps in proportion to the time worked.
func (c *Checker) pause(ctx context.Context, worked time.Duration) error {
	for rest := min((workShare-1)*worked, maxPause); ; {
		part := min(rest, writeInterval)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(part):
		}
		if !c.leads(Leadership) {
			return errLost
		}
		if time.Since(c.written) >= writeInterval {
			if err := c.writeProgress(ctx); err != nil {
				return err
			}
		}
		if rest -= part; rest <= 0 {
			return nil
		}
	}
}
