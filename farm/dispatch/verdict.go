package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/farm/wire"
)

// claimed is a job that a runner says it has.
type claimed struct {
	job   events.ID
	epoch int
}

// A verdict is what a runner has to do with a job that it says it has.
type verdict struct {
	word      string
	acked     int64
	grace     int
	deadline  time.Time // of one that is being cancelled
	artifacts bool
}

func (v verdict) said(job claimed) wire.Verdict {
	return wire.Verdict{
		Job: job.job.String(), Epoch: job.epoch, Verdict: v.word, Acked: v.acked, GraceSeconds: v.grace, Artifacts: v.artifacts,
	}
}

// verdictSQL looks jobs up that a runner, $2, says it has: $3 and their epochs $4. There
// is no row of one that is not its own in that epoch.
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

// verdicts judges what a runner says it has. What it learns of a job of somebody else is
// what it learns of one that there never was.
func (d *Dispatcher) verdicts(ctx context.Context, r Runner, list []claimed) (map[claimed]verdict, error) {
	out := make(map[claimed]verdict, len(list))
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
	var k claimed
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
		case state == events.JobCancelling:
			v.word, v.deadline, v.grace = wire.CancelJob, due, d.graceUntil(due)
		}
		out[k] = v
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("judge what runner %s holds: %w", r.ID, err)
	}
	return out, nil
}
