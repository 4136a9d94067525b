package proof

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// signingTime is how long an event may be unsigned. Signing takes milliseconds; after a crash of
// the signer or the database it takes as long as a lease and a reconnect. Three times that means
// that nobody signs.
//
// The time counts from when somebody has seen the event. The event's own time comes from the clock
// of its author, and can be altered while it is unsigned.
const signingTime = 10 * time.Second

// maxPollPause is the longest pause between polls for unsigned logs.
const maxPollPause = time.Second

// Due returns, for each log with unsigned events, the head it had signingTime ago: those events
// should be signed. If all is signed, it returns at once. The result is for [Check]. Without
// workspaces it looks at all.
func Due(ctx context.Context, db *pgxpool.Pool, workspaces ...events.ID) (map[events.ID]int64, error) {
	due, err := unsignedTails(ctx, db, workspaces)
	end := time.Now().Add(signingTime)
	for wait := 10 * time.Millisecond; err == nil && len(due) > 0 && time.Now().Before(end); wait = min(2*wait, maxPollPause) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		var now map[events.ID]unsignedTail
		now, err = unsignedTails(ctx, db, slices.Collect(maps.Keys(due)))
		for workspace, t := range due {
			if n, still := now[workspace]; !still || n.signed >= t.head {
				delete(due, workspace)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look for what is not signed: %w", err)
	}
	heads := make(map[events.ID]int64, len(due))
	for workspace, t := range due {
		heads[workspace] = t.head
	}
	return heads, nil
}

// An unsignedTail describes the unsigned part of a log, which follows event signed. If signed is beyond
// head, events are missing.
type unsignedTail struct{ head, signed int64 }

// unsignedTails returns the tails of the logs of workspaces, or of all logs if there are none. It reads
// the checkpoints, because anybody can forge the prover's position.
func unsignedTails(ctx context.Context, db *pgxpool.Pool, workspaces []events.ID) (map[events.ID]unsignedTail, error) {
	list := map[events.ID]unsignedTail{}
	var workspace events.ID
	var t unsignedTail
	if len(workspaces) == 0 {
		rows, _ := db.Query(ctx, tailsSQL)
		_, err := pgx.ForEachRow(rows, []any{&workspace, &t.head, &t.signed}, func() error { list[workspace] = t; return nil })
		return list, err
	}
	if len(workspaces) > 1 {
		rows, _ := db.Query(ctx, tailsSQL+tailsOfSQL, workspaces)
		_, err := pgx.ForEachRow(rows, []any{&workspace, &t.head, &t.signed}, func() error { list[workspace] = t; return nil })
		return list, err
	}
	err := db.QueryRow(ctx, `
		select coalesce((select head from logs where workspace_id = $1), 0),
			coalesce((select max(size) from proof_checkpoints where workspace_id = $1), 0)`, workspaces[0]).Scan(&t.head, &t.signed)
	if err == nil && t.head != t.signed {
		list[workspaces[0]] = t
	}
	return list, err
}

// tailsSQL selects the tails of all logs.
const tailsSQL = `
	select l.workspace_id, l.head, c.size from logs l cross join lateral (
		select coalesce(max(size), 0) as size from proof_checkpoints c where c.workspace_id = l.workspace_id) c
	where l.head <> c.size`

// tailsOfSQL follows tailsSQL and selects those of the logs of $1.
const tailsOfSQL = ` and l.workspace_id = any($1) order by 1`
