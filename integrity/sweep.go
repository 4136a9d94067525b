// Package integrity looks, again and again, whether what the database holds is
// what it should come to: every log what was signed for, every row of a view and
// every key what its log says.
//
// Whoever can write to the database can change both, but does not have the key
// that signs: this tells where to look. It changes nothing, and takes a small
// share of the time, so that it may go on for hours where there is much.
package integrity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	// Lease is that of the process which looks.
	Lease = "integrity"

	share     = 20               // of the time, one part in so many is for looking
	pauseMost = 30 * time.Second // after a piece of work, however long it took
	page      = 1000             // logs that are listed together
	keptMost  = 1000             // workspaces of which it is known what is wrong; more only count
	idle      = time.Second      // between two looks for whether it leads
	beginning = time.Minute      // of a process, which has other things to do, at most
)

var errLost = errors.New("another process looks now")

// A Sweep goes through all logs in rounds. Any number of processes may have one:
// the one that leads works, and knows.
type Sweep struct {
	db     *pgxpool.Pool
	prover *proof.Prover
	leads  func(lease string) bool
	every  time.Duration
	log    *slog.Logger

	mu    sync.Mutex
	found map[events.ID]wrong
}

// wrong is what is wrong in one workspace.
type wrong struct {
	log        string         // which record, and why; "" if nothing
	rows       map[string]int // how many, by view
	uncompared bool           // something could not be compared
	told       map[string]bool
}

// New returns a sweep that does nothing until it runs. Between the end of a round
// and the next so much time goes by; none at all means that there is no round.
func New(db *pgxpool.Pool, prover *proof.Prover, leads func(lease string) bool, every time.Duration, log *slog.Logger) *Sweep {
	return &Sweep{db: db, prover: prover, leads: leads, every: every, log: log, found: map[events.ID]wrong{}}
}

// Rows returns how many rows are not what the log says, by view.
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

// Logs returns how many logs are not what was signed for.
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

// Uncompared returns in how many workspaces something could not be compared, so
// that nobody knows whether it is what the log says.
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

// Run makes rounds until ctx ends.
func (s *Sweep) Run(ctx context.Context) {
	if s.every <= 0 {
		return
	}
	for wait := min(s.every, beginning); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if wait = idle; !s.leads(Lease) {
			s.forget()
			continue
		}
		if err := s.round(ctx); err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "compare logs, views and keys", "err", err)
			}
			continue
		}
		wait = s.every
	}
}

// forget leaves it to whoever leads to know what is wrong.
func (s *Sweep) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.found)
}

// round goes through all logs, and then through rows that have none.
func (s *Sweep) round(ctx context.Context) error {
	seen := map[events.ID]bool{}
	for last := (events.ID{}); ; {
		rows, _ := s.db.Query(ctx, `select workspace_id from logs where workspace_id > $1 order by workspace_id limit $2`, last, page)
		list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
		if err != nil {
			return fmt.Errorf("list logs: %w", err)
		}
		for _, workspace := range list {
			if err := s.look(ctx, workspace, seen); err != nil {
				return err
			}
			last = workspace
		}
		if len(list) < page {
			break
		}
	}
	began := time.Now()
	strays, err := fold.Strays(ctx, s.db, projections.All())
	if err != nil {
		return err
	}
	if err := s.pause(ctx, time.Since(began)); err != nil {
		return err
	}
	for _, workspace := range strays {
		if err := s.look(ctx, workspace, seen); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.found, func(workspace events.ID, _ wrong) bool { return !seen[workspace] }) // it is gone
	return nil
}

// look compares one workspace. What cannot be compared now is told, and left to the
// next round, unless the database is away.
func (s *Sweep) look(ctx context.Context, workspace events.ID, seen map[events.ID]bool) error {
	began := time.Now()
	step := func(int64, int64) { _ = s.pause(ctx, time.Since(began)); began = time.Now() }
	report, unverified := s.prover.Verify(ctx, workspace, "", step)
	if unverified != nil && s.over(ctx) {
		return unverified
	}
	if err := s.pause(ctx, time.Since(began)); err != nil {
		return err
	}
	done, uncompared := fold.Compare(ctx, s.db, projections.All(), workspace, s.pause)
	if uncompared != nil && s.over(ctx) {
		return uncompared
	}
	if unverified != nil {
		done.Skipped = append(done.Skipped, "signatures: "+unverified.Error())
	}
	if uncompared != nil {
		done.Skipped = append(done.Skipped, "views: "+uncompared.Error())
	}
	s.note(ctx, workspace, report, done, seen)
	return nil
}

// over reports whether the round ends with an error, which then is not about one log.
func (s *Sweep) over(ctx context.Context) bool {
	return ctx.Err() != nil || !s.leads(Lease) || s.db.Ping(ctx) != nil
}

// note remembers what was found, and tells what is new.
func (s *Sweep) note(ctx context.Context, workspace events.ID, report proof.Report, done fold.Compared, seen map[events.ID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.found[workspace].told
	delete(s.found, workspace)
	w := wrong{rows: map[string]int{}, uncompared: len(done.Skipped) > 0, told: map[string]bool{}}
	isNew := func(key string) bool {
		w.told[key] = true
		return !before[key]
	}
	if report.Bad != nil {
		w.log = fmt.Sprintf("record %d: %s", report.Bad.Seq, report.Bad.Reason)
		if isNew(w.log) {
			s.log.ErrorContext(ctx, "log is not what was signed for", "workspace", workspace, "record",
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
			s.log.ErrorContext(ctx, "cannot be compared with the log", "workspace", workspace, "what", why)
		}
	}
	if done.More > 0 {
		last := done.Differences[len(done.Differences)-1].View
		w.rows[last] += done.More
		s.log.ErrorContext(ctx, "view differs from the log in more rows", "workspace", workspace, "view", last, "rows", done.More)
	}
	if len(w.told) > 0 && len(s.found) < keptMost {
		s.found[workspace] = w
		seen[workspace] = true
	}
}

// pause leaves most of the time to others.
func (s *Sweep) pause(ctx context.Context, worked time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min((share-1)*worked, pauseMost)):
	}
	if !s.leads(Lease) {
		return errLost
	}
	return nil
}
