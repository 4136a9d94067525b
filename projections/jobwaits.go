package projections

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// Why a job waits.
const (
	WaitsForRunner      = "no_matching_runner" // none that is there meets what it requires
	WaitsForDrained     = "runner_draining"    // those that do take no more jobs
	WaitsForRest        = "runner_resting"     // those that do have declined what they were given, often
	WaitsForSlot        = "all_busy"           // those that do have as many jobs as they take, or have just declined this one
	WaitsForConcurrency = "concurrency_limit"  // as many jobs of its key run as may
	WaitsForTime        = "not_before"         // it rests after an attempt
)

// A JobWaits knows the runners that are there, and says why jobs wait.
type JobWaits struct {
	runners []waitingRunner
	taken   map[string]events.ConcurrencyUse // of the concurrency keys of the jobs
	at      time.Time
}

type waitingRunner struct {
	ID        events.ID
	Labels    []string
	Exclusive []string
	Draining  bool
	Free      bool
	Resting   bool
}

// runnersConsidered is how many runners of a workspace a waiting reason is found by.
const runnersConsidered = 2000

// Waits looks at the runners, and at the concurrency keys of those of list that are queued.
func (v Jobs) Waits(ctx context.Context, workspace events.ID, list []Job, now time.Time) (w JobWaits, err error) {
	w = JobWaits{taken: map[string]events.ConcurrencyUse{}, at: now}
	keys, queued := []string{}, false
	for _, j := range list {
		queued = queued || j.State == events.JobQueued
		if j.State == events.JobQueued && j.Key != "" {
			keys = append(keys, j.Key)
		}
	}
	if !queued {
		return w, nil
	}
	b := &pgx.Batch{}
	b.Queue(`
		select r.runner_id, r.labels, r.exclusive_labels, r.draining, coalesce(r.jobs_left, 1) > 0 and r.capacity > (
			select count(*) from jobs j where j.workspace_id = $1 and j.runner_id = r.runner_id and j.state in ('leased', 'running', 'cancelling')),
			coalesce((select p.rests_until > $3 from runner_presence p where p.workspace_id = $1 and p.runner_id = r.runner_id), false)
		from runners r where r.workspace_id = $1 and r.state in ('online', 'draining') order by r.runner_id limit $2`,
		workspace, runnersConsidered, now).Query(func(rows pgx.Rows) (err error) {
		w.runners, err = pgx.CollectRows(rows, pgx.RowToStructByPos[waitingRunner])
		return err
	})
	if len(keys) > 0 {
		b.Queue(`
			select concurrency_key, count(*), min(concurrency) from jobs
			where workspace_id = $1 and slot > 0 and concurrency_key = any($2) group by concurrency_key`,
			workspace, keys).Query(func(rows pgx.Rows) error {
			var key string
			var u events.ConcurrencyUse
			_, err := pgx.ForEachRow(rows, []any{&key, &u.Held, &u.LowestLimit}, func() error {
				w.taken[key] = u
				return nil
			})
			return err
		})
	}
	if err := v.DB.SendBatch(ctx, b).Close(); err != nil {
		return w, fmt.Errorf("runners that jobs of %s wait for: %w", workspace, err)
	}
	return w, nil
}

// Reason says why a job waits, "" if it does not, or is about to be given to a runner.
func (w JobWaits) Reason(j Job) string {
	if j.State != events.JobQueued {
		return ""
	}
	matching, taking, awake, free := false, false, false, false
	for _, r := range w.runners {
		if !j.Required.Met(r.Labels, r.Exclusive) {
			continue
		}
		matching = true
		if r.Draining {
			continue
		}
		taking = true
		if r.Resting {
			continue
		}
		awake = true
		declined := slices.Contains(j.Excluded, r.ID) && w.at.Before(j.QueuedAt.Add(JobExclusion))
		free = free || r.Free && !declined
	}
	switch {
	case w.at.Before(j.NotBefore):
		return WaitsForTime
	case !matching:
		return WaitsForRunner
	case !taking:
		return WaitsForDrained
	case !awake:
		return WaitsForRest
	case w.taken[j.Key].Full(j.Concurrency):
		return WaitsForConcurrency
	case !free:
		return WaitsForSlot
	}
	return ""
}

// JobExclusion is how long a runner is not given a job again that it has declined, so that
// another one may take it. After that it is: there may be no other.
const JobExclusion = 30 * time.Second
