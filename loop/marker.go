package loop

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
)

// MarkerName is the name of the marker's checkpoint and lease.
const MarkerName = "loop"

const (
	markerPage = 500         // events of a transaction
	sweepEvery = time.Minute // between sweeps
	wokenRuns  = 8           // that are looked at when a place among the active ones is free
)

// A Marker makes runs due of which something has happened. One process of all works at a time.
type Marker struct {
	db     *pgxpool.Pool
	table  table
	leads  func(string) bool
	logger *slog.Logger
	follow *follow.Follower
	marked func() // tells this process's workers
}

// NewMarker returns a marker that does nothing until a [Scheduler] runs it.
func NewMarker(db *pgxpool.Pool, leads func(string) bool, log *slog.Logger) *Marker {
	return &Marker{db: db, table: table{db}, leads: leads, logger: log, follow: follow.New(db, MarkerName, leads, log), marked: func() {}}
}

// Moved tells m that a log has grown, or that any may have if workspace is zero. It does not block.
func (m *Marker) Moved(workspace events.ID, _ int64) { m.follow.Moved(workspace) }

// Stuck returns how many logs cannot be followed at present.
func (m *Marker) Stuck() int { return m.follow.Stuck() }

// run marks until ctx ends.
func (m *Marker) run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { m.sweep(ctx) })
	m.follow.Run(ctx, m.takePage)
	group.Wait()
}

// sweep makes runs due whose worker has died, and now and then all active ones that nobody looks at.
func (m *Marker) sweep(ctx context.Context) {
	led := false
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			m.expire(ctx)
			leads := m.leads(MarkerName)
			if !leads || led && now.Sub(last) < sweepEvery {
				led = leads
				continue
			}
			led, last = true, now
			if err := m.table.sweep(ctx); err != nil && ctx.Err() == nil {
				m.logger.WarnContext(ctx, "sweep runs", "err", err)
			}
			m.marked()
		}
	}
}

// expire makes runs due whose worker has died. Every process does that.
func (m *Marker) expire(ctx context.Context) {
	n, err := m.table.expire(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		m.logger.WarnContext(ctx, "end expired claims", "err", err)
	case n > 0:
		m.marked()
	}
}

// wanted are the kinds of events that can move a run.
var wanted = []string{
	"run", "decision", "repo",
	events.JobFinished{}.Kind(), events.JobCancelled{}.Kind(), events.JobExpired{}.Kind(), events.JobLost{}.Kind(),
	events.JobArtifactsCompleted{}.Kind(), events.JobArtifactsAbandoned{}.Kind(),
}

// takePage reads the next events of logs.
func (m *Marker) takePage(ctx context.Context, workspaces []events.ID) (more []events.ID, err error) {
	limit := max(markerPage/len(workspaces), 1)
	err = pgx.BeginFunc(ctx, m.db, func(tx pgx.Tx) error {
		list, err := follow.LockCheckpoints(ctx, tx, MarkerName, workspaces)
		if err != nil || len(list) == 0 {
			return err
		}
		records, err := store.Page{Logs: list, Limit: limit, Decode: store.Strict, Kinds: wanted}.Read(ctx, tx)
		if err != nil {
			return err
		}
		ends := follow.Ends(records)
		if err := follow.CheckComplete(ctx, tx, list, ends); err != nil || len(records) == 0 {
			return err
		}
		more = store.LogsWithMore(records, len(list), limit)
		for len(records) > 0 {
			n := slices.IndexFunc(records, func(r events.Record) bool { return r.Workspace != records[0].Workspace })
			if n < 0 {
				n = len(records)
			}
			if err := m.take(ctx, tx, records[:n]); err != nil {
				return err
			}
			records = records[n:]
		}
		move := &pgx.Batch{}
		follow.QueueMove(move, MarkerName, ends)
		return tx.SendBatch(ctx, move).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("mark runs: %w", err)
	}
	m.marked()
	return more, nil
}

// take marks what the events of one log concern.
func (m *Marker) take(ctx context.Context, tx pgx.Tx, records []events.Record) error {
	var of concerned
	for _, r := range records {
		if err := of.add(ctx, tx, r); err != nil {
			return err
		}
	}
	workspace := records[0].Workspace
	if len(of.runs) > 0 {
		if err := m.table.mark(ctx, tx, workspace, of.runs); err != nil {
			return err
		}
	}
	for _, repo := range of.repos {
		if err := m.table.wakeRepo(ctx, tx, workspace, repo); err != nil {
			return err
		}
	}
	if of.freed {
		codes := []string{string(events.WaitSlot), string(events.WaitTidy), string(events.WaitLane)}
		return m.table.wake(ctx, tx, workspace, codes, wokenRuns)
	}
	return nil
}

// A concerned is what some events of a log concern.
type concerned struct {
	runs  []mark
	repos []events.ID // all of their runs
	freed bool        // a place among active runs, or the turn to merge
}

func (c *concerned) add(ctx context.Context, tx pgx.Tx, r events.Record) error {
	switch e := r.Event.(type) {
	case events.RunWaiting, events.RunCostRecorded:
		return nil // nothing follows from them
	case events.RunQueued:
		c.mark(r.Stream, e.Repo.ID)
	case events.RunMerged, events.RunRejected, events.RunFailed, events.RunCancelled, events.RunTidied, events.RunStageFailed,
		events.RunMergeApprovalVoided:
		c.freed = true
		c.mark(r.Stream, events.ID{})
	case events.Undecoded:
		return nil
	default:
		return c.addOther(ctx, tx, r)
	}
	return nil
}

func (c *concerned) addOther(ctx context.Context, tx pgx.Tx, r events.Record) error {
	switch events.NounOf(r.Event.Kind()).Name {
	case "run", "decision":
		c.mark(r.Stream, events.ID{})
	case "repo":
		if !slices.Contains(c.repos, r.Stream) {
			c.repos = append(c.repos, r.Stream)
		}
	case "job":
		run, err := runOf(ctx, tx, r.Workspace, r.Stream)
		if err != nil {
			return err
		}
		if !run.IsZero() {
			c.mark(run, events.ID{})
		}
	}
	return nil
}

func (c *concerned) mark(run, repo events.ID) {
	at := slices.IndexFunc(c.runs, func(m mark) bool { return m.Run == run })
	if at < 0 {
		c.runs = append(c.runs, mark{Run: run, Repo: repo})
	} else if !repo.IsZero() {
		c.runs[at].Repo = repo
	}
}

// runAnnotation is the annotation of a run's job that names the run.
const runAnnotation = "run"

// runOf returns the run for which the service submitted a job, or zero.
func runOf(ctx context.Context, tx pgx.Tx, workspace, job events.ID) (run events.ID, err error) {
	list, err := store.StreamPage{Workspace: workspace, Stream: job, Limit: 1, Decode: store.Lenient}.Read(ctx, tx)
	if err != nil {
		return run, fmt.Errorf("read job %s: %w", job, err)
	}
	for _, r := range list {
		if e, ok := r.Event.(events.JobSubmitted); ok && r.Actor.Type == events.BySystem {
			run, _ = events.ParseID(e.Spec.Annotations[runAnnotation]) // zero if it is not of a run
		}
	}
	return run, nil
}
