package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events"
	"svc/farm/wire"
)

// Presences say what runners are doing at the moment, by their last heartbeats.
type Presences struct{ DB *pgxpool.Pool }

// A Presence is what a runner said last.
type Presence struct {
	Runner      events.ID
	ConnectedAt time.Time
	SeenAt      time.Time // its last heartbeat
	Free        int       // jobs that it could take
	Load        float64
	DiskFree    int64 // bytes
	Memory      int64 // bytes that are available
	Usage       []wire.Usage
}

// Stalled reports whether the runner was not heard of for longer than one that is well is.
func (p Presence) Stalled(now time.Time) bool { return now.Sub(p.SeenAt) > wire.StalledAfter }

// Of returns the presences of runners of a workspace, of all of them if none are named.
// One that has never connected has none.
func (v Presences) Of(ctx context.Context, workspace events.ID, runners ...events.ID) (map[events.ID]Presence, error) {
	rows, _ := v.DB.Query(ctx, `
		select runner_id, connected_at, seen_at, free, load, disk_free, memory, usage from runner_presence
		where workspace_id = $1 and ($2::uuid[] is null or runner_id = any($2))`, workspace, runners)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Presence])
	if err != nil {
		return nil, fmt.Errorf("presence of runners of %s: %w", workspace, err)
	}
	by := make(map[events.ID]Presence, len(list))
	for _, p := range list {
		by[p.Runner] = p
	}
	return by, nil
}

// disappear says that a runner is not there any more, unless another connection of it is.
func (d *Dispatcher) disappear(ctx context.Context, r Runner, connection events.ID, why events.OfflineReason) error {
	if _, err := d.Commands.DisconnectRunner(ctx, commands.DisconnectRunner{Meta: r.meta(), Runner: r.ID, Reason: why}); err != nil {
		return fmt.Errorf("disconnect runner %s: %w", r.ID, err)
	}
	_, err := d.DB.Exec(ctx, `
		update runner_presence set online = false
		where workspace_id = $1 and runner_id = $2 and connection_id = $3`, r.Workspace, r.ID, connection)
	if err != nil {
		return fmt.Errorf("presence of runner %s: %w", r.ID, err)
	}
	return nil
}
