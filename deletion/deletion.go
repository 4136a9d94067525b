// Package deletion ends what goes on in deleted workspaces, and erases the workspaces that nobody restored in time.
//
// Both are done in bounded steps, by one process at a time, and each step finds what is left to do: a process that
// dies has lost nothing but time. What is erased when is decided by the workspace's log, as long as it is whole.
// Files, secrets and rows go first. Then there is a tombstone, a note signed with the key of logs that has the last
// checkpoint, and the log is erased.
package deletion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events"
	"svc/farm/artifacts"
	"svc/proof"
)

// Leadership is the name under which one process is elected to work.
const Leadership = "deletion"

const (
	every       = time.Second // between rounds
	roundLimit  = time.Minute // of a round
	page        = 200         // workspaces, runs and jobs of a step
	rowsPerStep = 5000        // that a statement deletes
)

// Config configures a [Worker].
type Config struct {
	DB        *pgxpool.Pool
	Commands  *commands.Handler
	Prover    *proof.Prover
	Artifacts artifacts.Store // nil if artifacts are off
	Followers []string        // names of the checkpoints that have to be at the end of a log before it is purged
	Leads     func(name string) bool
	Now       func() time.Time
	Log       *slog.Logger
}

// A Worker works while it leads [Leadership].
type Worker struct {
	Config
	stopped map[events.ID]bool // runs and jobs that were told to stop and have not ended yet
}

// New returns a worker that does nothing until Run is called.
func New(c Config) *Worker { return &Worker{Config: c, stopped: map[events.ID]bool{}} }

// Run works until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if w.Leads(Leadership) {
			w.Round(ctx)
		}
	}
}

// Round does once what is to be done.
func (w *Worker) Round(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	for _, step := range []func(context.Context) error{w.stopRuns, w.cancelJobs, w.purgeDue, w.eraseAll} {
		if err := step(limited); err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "end or erase deleted workspaces", "err", err)
		}
	}
}

// A ref is a run or a job.
type ref struct{ Workspace, ID events.ID }

// stopRuns stops the active runs of deleted workspaces. One that is being merged ends with the attempt.
func (w *Worker) stopRuns(ctx context.Context) error {
	return w.each(ctx, `
		select r.workspace_id, r.run_id from deleted_workspaces d
		join runs r on r.workspace_id = d.workspace_id and r.active
		where not r.run_id = any($1) limit $2`,
		func(r ref) error {
			_, err := w.Commands.StopRun(ctx, commands.StopRun{Meta: commands.SystemMeta(r.Workspace), Run: r.ID})
			return err
		})
}

// cancelJobs cancels the jobs of deleted workspaces. Runners kill those that they have.
func (w *Worker) cancelJobs(ctx context.Context) error {
	return w.each(ctx, `
		select j.workspace_id, j.job_id from deleted_workspaces d
		join jobs j on j.workspace_id = d.workspace_id and j.state in ('queued', 'leased', 'running')
		where not j.job_id = any($1) limit $2`,
		func(r ref) error {
			_, err := w.Commands.CancelJob(ctx, commands.CancelJob{
				Meta: commands.SystemMeta(r.Workspace), Job: r.ID, Reason: commands.WorkspaceDeleted, Grace: new(int),
			})
			return err
		})
}

// each calls do once for what a query returns, if the log says that its workspace is deleted.
func (w *Worker) each(ctx context.Context, query string, do func(ref) error) error {
	known := slices.AppendSeq([]events.ID{}, maps.Keys(w.stopped))
	rows, _ := w.DB.Query(ctx, query, known, page)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ref])
	if err != nil {
		return fmt.Errorf("look for what goes on: %w", err)
	}
	if len(list) == 0 && len(known) > page {
		clear(w.stopped) // most of them have ended
	}
	for _, r := range list {
		deleted, failed := w.Commands.IsDeleted(ctx, r.Workspace)
		if failed == nil && deleted {
			failed = do(r)
		}
		switch {
		case failed != nil:
			err = errors.Join(err, fmt.Errorf("end %s: %w", r.ID, failed))
		case deleted:
			w.stopped[r.ID] = true
		}
	}
	return err
}
