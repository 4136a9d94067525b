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
	"strings"
	"sync"
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

// A Sweep checks all logs in rounds. Any number of processes may have one. Only the leader works and
// reports results, unless it makes no progress.
type Sweep struct {
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
	leaseless bool               // this process compares although another may hold the lease

	mu      sync.Mutex
	found   map[events.ID]problems
	overdue bool
}

// problems describes the problems of one workspace.
type problems struct {
	log        string          // number of the bad record, and the reason; "" if there is none
	rows       map[string]int  // number of differing rows by view
	uncompared bool            // something could not be compared
	logged     map[string]bool // problems that were logged
}

// New returns a sweep that does nothing until Run. every is the time between the end of a round and
// the beginning of the next; if it is 0, there are no rounds. keys authenticates its progress.
func New(
	db *pgxpool.Pool, prover *proof.Prover, keys Authenticator, leads func(lease string) bool, every time.Duration, log *slog.Logger,
) *Sweep {
	return &Sweep{
		db: db, prover: prover, leads: leads, every: every, log: log, found: map[events.ID]problems{}, seen: map[events.ID]bool{},
		progress: progressWatch{db: db, keys: keys, log: log, self: events.NewID(time.Now())},
	}
}

// Overdue reports whether there was no progress for some intervals, and no process has compared with
// the lease since.
func (s *Sweep) Overdue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overdue
}

// Rows returns the number of rows that differ from the log, by view.
func (s *Sweep) Rows() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]int{}
	for _, w := range s.found {
		for view, rows := range w.rows {
			n[view] += rows
		}
	}
	return n
}

// Logs returns the number of logs that are not what was signed.
func (s *Sweep) Logs() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.found {
		if w.log != "" {
			n++
		}
	}
	return n
}

// Uncompared returns the number of workspaces in which something could not be compared.
func (s *Sweep) Uncompared() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.found {
		if w.uncompared {
			n++
		}
	}
	return n
}

// Run does rounds until ctx ends.
func (s *Sweep) Run(ctx context.Context) {
	if s.every <= 0 {
		return
	}
	for wait := min(s.every, maxFirstDelay); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = leaseCheckInterval
		compares, err := s.takesTurn(ctx)
		if err == nil && compares {
			if err = s.round(ctx); err == nil {
				wait = s.every
			}
		}
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "compare logs, views and keys", "err", err)
		}
	}
}

// takesTurn reports whether this process is to compare now.
func (s *Sweep) takesTurn(ctx context.Context) (bool, error) {
	if err := s.progress.read(ctx); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.progress.own() {
		clear(s.found) // another process reports what it finds
		s.fullRound = false
	}
	limit := max(overdueRounds*s.every, minOverdue)
	switch leads := s.leads(Leadership); {
	case leads || s.progress.idle == 0 && !s.progress.own():
		if s.overdue {
			s.log.InfoContext(ctx, "logs, views and keys are compared again")
		}
		s.overdue, s.leaseless = false, false
		return leads, nil
	case s.leaseless && s.progress.own():
		return true, nil
	case s.progress.idle < limit:
		return false, nil
	}
	if !s.overdue {
		s.log.ErrorContext(ctx, "no process compares logs, views and keys: this one does, without the lease", "for", s.progress.idle)
	}
	s.overdue, s.leaseless = true, true
	return true, nil
}

// round checks all logs after the last one that was checked, and then workspaces that have rows but
// no log.
func (s *Sweep) round(ctx context.Context) error {
	if !s.progress.own() {
		s.inherited = s.progress.newest.Found
	}
	s.last = s.progress.newest.Last
	if s.last.IsZero() {
		s.seen, s.fullRound = map[events.ID]bool{}, true
	}
	if err := s.writeProgress(ctx); err != nil {
		return err
	}
	for ; len(s.inherited) > 0; s.inherited = s.inherited[1:] {
		if err := s.checkWorkspace(ctx, s.inherited[0]); err != nil {
			return err
		}
	}
	for {
		rows, _ := s.db.Query(ctx, `select workspace_id from logs where workspace_id > $1 order by workspace_id limit $2`, s.last, page)
		list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
		if err != nil {
			return fmt.Errorf("list logs: %w", err)
		}
		for _, workspace := range list {
			if err := s.checkWorkspace(ctx, workspace); err != nil {
				return err
			}
			s.last = workspace
		}
		if len(list) < page {
			break
		}
	}
	orphaned, err := fold.OrphanedWorkspaces(ctx, s.db, projections.All(), s.pause)
	if err != nil {
		if s.roundFails(ctx) {
			return err
		}
		s.fullRound = false // the next round looks again, and must not wait for this one
		s.log.WarnContext(ctx, "workspaces without a log are not compared", "err", err)
	}
	for _, workspace := range orphaned {
		if err := s.checkWorkspace(ctx, workspace); err != nil {
			return err
		}
	}
	if s.fullRound {
		s.mu.Lock()
		maps.DeleteFunc(s.found, func(workspace events.ID, _ problems) bool { return !s.seen[workspace] }) // the problem is gone
		s.mu.Unlock()
	}
	s.last = events.ID{}
	return s.writeProgress(ctx)
}

// writeProgress tells other processes what this one has compared. It fails if another one compares.
func (s *Sweep) writeProgress(ctx context.Context) error {
	ok, err := s.progress.write(ctx, s.last, s.affected(), !s.leaseless)
	if err == nil && !ok {
		err = errLost
	}
	s.written = time.Now()
	return err
}

// affected returns the workspaces in which this process or the one before it has found problems, up to a limit.
func (s *Sweep) affected() []events.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.AppendSeq(slices.Clone(s.inherited), maps.Keys(s.found))
	slices.SortFunc(list, func(a, b events.ID) int { return bytes.Compare(a[:], b[:]) })
	list = slices.Compact(list)
	return list[:min(len(list), maxRemembered)]
}

// checkWorkspace checks one workspace. Whatever cannot be compared is reported and tried again in the
// next round. The error is nil unless the whole round has to end, as when the database is unreachable.
func (s *Sweep) checkWorkspace(ctx context.Context, workspace events.ID) error {
	began := time.Now()
	step := func(int64, int64) { _ = s.pause(ctx, time.Since(began)); began = time.Now() }
	report, unverified := s.prover.Verify(ctx, workspace, "", step)
	if unverified != nil && s.roundFails(ctx) {
		return unverified
	}
	if err := s.pause(ctx, time.Since(began)); err != nil {
		return err
	}
	done, uncompared := fold.Compare(ctx, s.db, projections.All(), workspace, s.pause)
	if uncompared != nil && s.roundFails(ctx) {
		return uncompared
	}
	if unverified != nil {
		done.Skipped = append(done.Skipped, "signatures: "+unverified.Error())
	}
	if uncompared != nil {
		done.Skipped = append(done.Skipped, "views: "+uncompared.Error())
	}
	s.record(ctx, workspace, report, done, unverified == nil, uncompared == nil)
	return nil
}

// roundFails reports whether an error concerns the whole round rather than one log.
func (s *Sweep) roundFails(ctx context.Context) bool {
	return ctx.Err() != nil || !s.compares() || s.db.Ping(ctx) != nil
}

// record stores the problems of a workspace and logs each of them once. What was found earlier and
// could not be checked again, because the log was not verified or a view not compared, is kept.
func (s *Sweep) record(
	ctx context.Context, workspace events.ID, report proof.Report, done fold.CompareResult, verified, compared bool,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.found[workspace]
	delete(s.found, workspace)
	w := problems{rows: map[string]int{}, uncompared: len(done.Skipped) > 0, logged: map[string]bool{}}
	if !verified {
		w.log = before.log
	}
	if w.uncompared {
		maps.Copy(w.logged, before.logged)
	}
	isNew := func(key string) bool {
		w.logged[key] = true
		return !before.logged[key]
	}
	if report.Bad != nil {
		w.log = fmt.Sprintf("record %d: %s", report.Bad.Seq, report.Bad.Reason)
		if isNew(w.log) {
			s.log.ErrorContext(ctx, "log differs from what was signed", "workspace", workspace, "record",
				report.Bad.Seq, "reason", report.Bad.Reason)
		}
	}
	for _, d := range done.Differences {
		w.rows[d.View]++
		if isNew(d.View + " " + d.Key) {
			s.log.ErrorContext(ctx, "view differs from the log", "workspace", workspace, "view", d.View, "key", d.Key)
		}
	}
	for _, why := range done.Skipped {
		if isNew(why) {
			s.log.ErrorContext(ctx, "comparison with the log failed", "workspace", workspace, "what", why)
		}
	}
	if done.More > 0 {
		last := done.Differences[len(done.Differences)-1].View
		w.rows[last] += done.More
		s.log.ErrorContext(ctx, "view differs from the log in more rows", "workspace", workspace, "view", last, "rows", done.More)
	}
	for view, n := range before.rows {
		skipped := slices.ContainsFunc(done.Skipped, func(why string) bool { return strings.HasPrefix(why, view+":") })
		if !compared || skipped {
			w.rows[view] = max(w.rows[view], n)
		}
	}
	if len(w.logged) > 0 && len(s.found) < maxRemembered {
		s.found[workspace] = w
		s.seen[workspace] = true
	}
}

// compares reports whether this process may still compare.
func (s *Sweep) compares() bool { return s.leaseless || s.leads(Leadership) }

// pause sleeps in proportion to the time worked.
func (s *Sweep) pause(ctx context.Context, worked time.Duration) error {
	for rest := min((workShare-1)*worked, maxPause); ; {
		part := min(rest, writeInterval)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(part):
		}
		if !s.compares() {
			return errLost
		}
		if time.Since(s.written) >= writeInterval {
			if err := s.writeProgress(ctx); err != nil {
				return err
			}
		}
		if rest -= part; rest <= 0 {
			return nil
		}
	}
}
