// Package integrity repeatedly verifies that each log is what was signed, and that each row of a
// view and each unique key is what its log says.
//
// An attacker who can write to the database can change both, but does not have the signing key. The
// package reports differences and repairs nothing. It works for a small share of the time, so a round
// may take hours on a large database. If a process ends during a round, another one checks again where
// problems were found, and continues the round.
//
// A lease decides which process compares, but only to save work, because an attacker could hold it.
// Therefore every process observes the progress. If there has been none for some intervals, a process
// reports that and compares without the lease.
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
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
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
// reports results, unless it makes no progress.
type Checker struct {
	db     *pgxpool.Pool
	prover *proof.Prover
	leads  func(lease string) bool
	every  time.Duration
	log    *slog.Logger

	// Only for Run.
	progress  progressWatch
	written   time.Time          // time of the last write of the progress
	last      events.ID          // the last workspace that was compared in this round
	seen      map[events.ID]bool // workspaces with problems in this round
	inherited []events.ID        // workspaces in which another process has found problems, not checked here yet
	fullRound bool               // this process has done all of this round so far
	verified  map[events.ID]bool // workspaces whose logs this process has verified, in any round
	leaseless bool               // this process compares although another may hold the lease

	mu      sync.Mutex
	found   map[events.ID]problems
	overdue bool
}

// New returns a checker that does nothing until Run. every is the time between the end of a round and
// the beginning of the next; if it is 0, there are no rounds. keys authenticates its progress.
func New(
	db *pgxpool.Pool, prover *proof.Prover, keys store.Authenticator, leads func(lease string) bool, every time.Duration,
	log *slog.Logger,
) *Checker {
	return &Checker{
		db: db, prover: prover, leads: leads, every: every, log: log, found: map[events.ID]problems{}, seen: map[events.ID]bool{},
		verified: map[events.ID]bool{},
		progress: progressWatch{db: db, keys: keys, log: log, self: events.NewID(time.Now())},
	}
}

// Overdue reports whether there was no progress for some intervals, and no process has compared with
// the lease since.
func (c *Checker) Overdue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overdue
}

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
		compares, err := c.takesTurn(ctx)
		if err == nil && compares {
			if err = c.round(ctx); err == nil {
				wait = c.every
			}
		}
		if err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "compare logs, views and keys", "err", err)
		}
	}
}

// takesTurn reports whether this process is to compare now.
func (c *Checker) takesTurn(ctx context.Context) (bool, error) {
	if err := c.progress.read(ctx); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.progress.own() {
		clear(c.found) // another process reports what it finds
		c.fullRound = false
	}
	limit := max(overdueRounds*c.every, minOverdue)
	switch leads := c.leads(Leadership); {
	case leads || c.progress.idle == 0 && !c.progress.own():
		if c.overdue {
			c.log.InfoContext(ctx, "logs, views and keys are compared again")
		}
		c.overdue, c.leaseless = false, false
		return leads, nil
	case c.leaseless && c.progress.own():
		return true, nil
	case c.progress.idle < limit:
		return false, nil
	}
	if !c.overdue {
		c.log.ErrorContext(ctx, "no process compares logs, views and keys: this one does, without the lease", "for", c.progress.idle)
	}
	c.overdue, c.leaseless = true, true
	return true, nil
}

// round checks all logs after the last one that was checked, and then workspaces that have rows but
// no log.
func (c *Checker) round(ctx context.Context) error {
	if !c.progress.own() {
		c.inherited = c.progress.newest.Found
	}
	c.last = c.progress.newest.Last
	if c.last.IsZero() {
		c.seen, c.fullRound = map[events.ID]bool{}, true
	}
	if err := c.writeProgress(ctx); err != nil {
		return err
	}
	due, err := c.due(ctx, c.inherited)
	if err != nil {
		return err
	}
	for ; len(c.inherited) > 0; c.inherited = c.inherited[1:] {
		if err := c.checkWorkspace(ctx, c.inherited[0], due[c.inherited[0]]); err != nil {
			return err
		}
	}
	for {
		rows, _ := c.db.Query(ctx, `select workspace_id from logs where workspace_id > $1 order by workspace_id limit $2`, c.last, page)
		list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
		if err != nil {
			return fmt.Errorf("list logs: %w", err)
		}
		due, err := c.due(ctx, list)
		if err != nil {
			return err
		}
		for _, workspace := range list {
			if err := c.checkWorkspace(ctx, workspace, due[workspace]); err != nil {
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
		if c.roundFails(ctx) {
			return err
		}
		c.fullRound = false // the next round looks again, and must not wait for this one
		c.log.WarnContext(ctx, "workspaces without a log are not compared", "err", err)
	}
	for _, workspace := range orphaned {
		if err := c.checkWorkspace(ctx, workspace, 0); err != nil {
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
			if err := c.checkWorkspace(ctx, workspace, 0); err != nil {
				return err
			}
		}
		if err := c.pause(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// writeProgress tells other processes what this one has compared. It fails if another one compares.
func (c *Checker) writeProgress(ctx context.Context) error {
	ok, err := c.progress.write(ctx, c.last, c.affected(), !c.leaseless)
	if err == nil && !ok {
		err = errLost
	}
	c.written = time.Now()
	return err
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

// due signs what logs have now, and returns up to which event each should be signed. It looks at many logs at once:
// it has to wait for signatures if some lack one, and heads that somebody made up are never signed. That wait is no
// work to pause after.
func (c *Checker) due(ctx context.Context, list []events.ID) (due map[events.ID]int64, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	began := time.Now()
	err = c.prover.Sign(ctx, list)
	if err := c.pause(ctx, time.Since(began)); err != nil {
		return nil, err
	}
	if err == nil {
		due, err = proof.Due(ctx, c.db, list...)
	}
	if err != nil && !c.roundFails(ctx) {
		return nil, nil // verifying the logs fails as well, and is reported
	}
	return due, err
}

// checkWorkspace checks one workspace, whose log should be signed up to event due. Whatever cannot be compared is
// reported and tried again in the next round. The error is nil unless the whole round has to end, as when the
// database is unreachable.
func (c *Checker) checkWorkspace(ctx context.Context, workspace events.ID, due int64) error {
	began := time.Now()
	step := func(int64, int64) { _ = c.pause(ctx, time.Since(began)); began = time.Now() }
	var o outcome
	if o.report, o.verifyErr = c.prover.VerifyDue(ctx, workspace, due, step); o.verifyErr != nil && c.roundFails(ctx) {
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
	return ctx.Err() != nil || !c.compares() || c.db.Ping(ctx) != nil
}

// compares reports whether this process may still compare.
func (c *Checker) compares() bool { return c.leaseless || c.leads(Leadership) }

// pause sleeps in proportion to the time worked.
func (c *Checker) pause(ctx context.Context, worked time.Duration) error {
	for rest := min((workShare-1)*worked, maxPause); ; {
		part := min(rest, writeInterval)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(part):
		}
		if !c.compares() {
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
