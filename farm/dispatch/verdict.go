package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/farm/wire"
)

// A heldJob is a job that a runner says it holds.
type heldJob struct {
	job   events.ID
	epoch int
}

// A verdict says what a runner must do with a job that it says it holds.
type verdict struct {
	word      string
	acked     int64
	grace     int
	deadline  time.Time // of a job that is being cancelled
	artifacts bool
}

func (v verdict) toWire(job heldJob) wire.Verdict {
	return wire.Verdict{
		Job: job.job.String(), Epoch: job.epoch, Verdict: v.word, Acked: v.acked, GraceSeconds: v.grace, Artifacts: v.artifacts,
	}
}

// verdictSQL reads the jobs $3, in their epochs $4, that runner $2 says it holds. It returns no row
// for a job that the runner does not hold in that epoch. "offset 0" forces lookups by key, as in selectRunners.
const verdictSQL = `
	select k.job_id, k.epoch, l.fenced, l.finished, l.last_seq, j.state, j.artifacts->>'state' in ('awaiting', 'partial'),
		coalesce(j.due_at, 'epoch')
	from unnest($3::uuid[], $4::int[]) as k (job_id, epoch)
	cross join lateral (
		select fenced, finished, last_seq from job_leases l
		where l.workspace_id = $1 and l.job_id = k.job_id and l.epoch = k.epoch and l.runner_id = $2 offset 0) l
	cross join lateral (
		select state, artifacts, due_at from jobs j
		where j.workspace_id = $1 and j.job_id = k.job_id and j.runner_id = $2 and j.epoch = k.epoch offset 0) j`

// verdicts returns a verdict on each job. A runner learns the same about another runner's job as
// about one that never existed.
func (d *Dispatcher) verdicts(ctx context.Context, r Runner, list []heldJob) (map[heldJob]verdict, error) {
	out := make(map[heldJob]verdict, len(list))
	if len(list) == 0 {
		return out, nil
	}
	var jobs []events.ID
	var epochs []int
	for _, k := range list {
		out[k] = verdict{word: wire.StopJob}
		jobs, epochs = append(jobs, k.job), append(epochs, k.epoch)
	}
	rows, _ := d.DB.Query(ctx, verdictSQL, r.Workspace, r.ID, jobs, epochs)
	var k heldJob
	var fenced, finished, artifacts bool
	var acked int64
	var state events.JobState
	var due time.Time
	_, err := pgx.ForEachRow(rows, []any{&k.job, &k.epoch, &fenced, &finished, &acked, &state, &artifacts, &due}, func() error {
		v := verdict{word: wire.Continue, acked: acked}
		switch {
		case finished:
			v.word, v.artifacts = wire.Done, artifacts
		case fenced || !state.Held():
			v.word = wire.StopJob
		case state == events.JobStateCancelling:
			v.word, v.deadline, v.grace = wire.CancelJob, due, d.graceSeconds(due)
		}
		out[k] = v
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up jobs that runner %s holds: %w", r.ID, err)
	}
	return out, nil
}
