package runviews

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
)

// stuckAfter is how long an active run that waits for nobody may have no event before it counts as
// stuck.
const stuckAfter = 30 * time.Minute

// StuckSince returns the time of the last event of a stuck run, and nil if the run is not stuck. A
// queued run is never stuck, nor is one that says what it waits for, or has a job at the build farm.
func (run Run) StuckSince(now time.Time) *time.Time {
	if !run.Active || run.WaitsFor != "" || run.WaitCode != "" || run.OpenJobs > 0 || run.UpdatedAt.Add(stuckAfter).After(now) {
		return nil
	}
	switch run.Status {
	case events.RunStatusQueued, events.RunStatusNeedsInput, events.RunStatusAwaitingApproval, events.RunStatusUnknown:
		return nil
	}
	return &run.UpdatedAt
}

// A StageCount is how many active runs are in a stage.
type StageCount struct {
	Runs    int
	Waiting int // waiting for a person
	Stuck   int
}

// Stages counts active runs by the index of their stage. An additional last element counts runs in
// stages that this build does not know.
type Stages struct {
	List []StageCount
	Next *time.Time // when the next run becomes stuck unless something happens; nil if no run moves
}

// add adds to the count of a stage, which may be one that this build does not know.
func (s *Stages) add(stage int, c StageCount) {
	known := len(events.Stages())
	if stage < 0 || stage >= known {
		if len(s.List) == known {
			s.List = append(s.List, StageCount{})
		}
		stage = known
	}
	of := &s.List[stage]
	of.Runs, of.Waiting, of.Stuck = of.Runs+c.Runs, of.Waiting+c.Waiting, of.Stuck+c.Stuck
}

// Queue queues counting the runs of a workspace, or of one of its repositories, by stage.
func (s *Stages) Queue(b *pgx.Batch, workspace events.ID, repo *events.ID, now time.Time) {
	const moves = `waits_for = '' and wait_code = '' and open_jobs = 0
		and status not in ('queued', 'needs_input', 'awaiting_approval', 'unknown')`
	sql, args := `
		select stage, count(*), count(*) filter (where waits_for <> ''), count(*) filter (where updated_at <= $2 and `+moves+`),
			min(updated_at) filter (where updated_at > $2 and `+moves+`)
		from runs where workspace_id = $1 and active`, []any{workspace, now.Add(-stuckAfter)}
	if repo != nil {
		sql, args = sql+` and repo_id = $3`, append(args, *repo)
	}
	s.List = make([]StageCount, len(events.Stages()))
	b.Queue(sql+` group by stage`, args...).Query(func(rows pgx.Rows) error {
		var stage int
		var c StageCount
		var moved *time.Time
		_, err := pgx.ForEachRow(rows, []any{&stage, &c.Runs, &c.Waiting, &c.Stuck, &moved}, func() error {
			s.add(stage, c)
			if moved != nil && (s.Next == nil || moved.Add(stuckAfter).Before(*s.Next)) {
				s.Next = new(moved.Add(stuckAfter))
			}
			return nil
		})
		return err
	})
}

// RunCounts has numbers of runs.
type RunCounts struct {
	Active, Terminal int
	Stages           Stages // of active runs
}

// Counts counts the runs of a workspace, or of one of its repositories unless repo is nil.
func (v Runs) Counts(ctx context.Context, workspace events.ID, repo *events.ID, now time.Time) (c RunCounts, err error) {
	b := &pgx.Batch{}
	sql, args := `select coalesce(sum(active), 0), coalesce(sum(terminal), 0) from run_counts where workspace_id = $1`, []any{workspace}
	if repo != nil {
		sql, args = sql+` and repo_id = $2`, append(args, *repo)
	}
	b.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&c.Active, &c.Terminal) })
	c.Stages.Queue(b, workspace, repo, now)
	err = v.DB.SendBatch(ctx, b).Close()
	return c, fault.Wrap(err, "count runs of %s", workspace)
}
