package farmviews

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// A RunnerPresence is what a runner reported in its last heartbeat.
type RunnerPresence struct {
	Runner events.ID
	SeenAt time.Time
	Usage  []JobUsage // of its jobs
}

// A JobUsage is what a job uses of its machine.
type JobUsage struct {
	Job      events.ID `json:"job"`
	CPUMs    int64     `json:"cpuMs"`    // processor time so far, in milliseconds
	RSSBytes int64     `json:"rssBytes"` // current memory
}

// Presences returns the last reports of runners of a workspace. Runners that never connected are
// left out.
func (v Runners) Presences(ctx context.Context, workspace events.ID, runners []events.ID) (map[events.ID]RunnerPresence, error) {
	// "offset 0" forces a lookup by key for each. For runner_id = any($2) PostgreSQL may read all of the workspace.
	rows, _ := v.DB.Query(ctx, `
		select p.* from unnest($2::uuid[]) as k (runner_id) cross join lateral (
			select runner_id, seen_at, usage from runner_presence p where p.workspace_id = $1 and p.runner_id = k.runner_id offset 0) p`,
		workspace, runners)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[RunnerPresence])
	if err != nil {
		return nil, fmt.Errorf("read presence of runners of %s: %w", workspace, err)
	}
	by := make(map[events.ID]RunnerPresence, len(list))
	for _, p := range list {
		by[p.Runner] = p
	}
	return by, nil
}
