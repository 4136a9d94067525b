package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/farmviews"
	"svc/projections/runviews"
)

// Dashboard answers what is going on in a workspace, from its runs and its build farm.
type Dashboard struct{ DB *pgxpool.Pool }

// Positions returns a text for each workspace that changes whenever its dashboard may have
// changed: the head of the log plus the checkpoints of all followed views, and the time of the
// newest event, as a restored log may grow again to the same head.
// Its data about the farm comes from inline views. Workspaces without a log are left out.
func (v Dashboard) Positions(ctx context.Context, workspaces []events.ID) (map[events.ID]string, error) {
	rows, _ := v.DB.Query(ctx, selectDashboardPositions, workspaces)
	found, err := collectPositions(rows)
	return found, fault.Wrap(err, "read positions of dashboards")
}

var selectDashboardPositions = `
	select r.* from unnest((select $1::uuid[])) as k (workspace_id) cross join lateral (
		select workspace_id, (head + (select coalesce(sum(seq), 0) from checkpoints c
			where c.workspace_id = k.workspace_id and view in (` + followedNames + `))) || ' at ' || extract(epoch from last_at) from logs l
		where l.workspace_id = k.workspace_id offset 0) r`

func collectPositions(rows pgx.Rows) (map[events.ID]string, error) {
	found := map[events.ID]string{}
	var workspace events.ID
	var position string
	_, err := pgx.ForEachRow(rows, []any{&workspace, &position}, func() error {
		found[workspace] = position
		return nil
	})
	return found, err
}

// An Overview is what the dashboard shows of a workspace.
type Overview struct {
	Position string                 // one of Positions that the overview has at least reached
	Stages   runviews.Stages        // of active runs
	Waiting  runviews.WaitingCounts // open decisions
	Recent   []runviews.Run         // most recently updated runs, newest first
	Slots    farmviews.RunnerSlots
	Queued   int // jobs that wait for a runner
}

// Get returns the overview at time now, with up to recent runs.
func (v Dashboard) Get(ctx context.Context, workspace events.ID, recent int, now time.Time) (o Overview, err error) {
	b := &pgx.Batch{}
	b.Queue(selectDashboardPositions, []events.ID{workspace}).Query(func(rows pgx.Rows) error {
		found, err := collectPositions(rows)
		o.Position = found[workspace]
		return err
	})
	o.Stages.Queue(b, workspace, nil, now)
	o.Waiting.Queue(b, workspace)
	runviews.QueueRecent(b, workspace, recent, &o.Recent)
	farmviews.QueueCounts(b, workspace, &o.Slots, &o.Queued)
	err = v.DB.SendBatch(ctx, b).Close()
	return o, fault.Wrap(err, "read dashboard of %s", workspace)
}
