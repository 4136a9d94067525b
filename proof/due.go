package proof

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// signingTime is how long an event may be unsigned. Signing takes milliseconds;
// after a crash of who signs, or of the database, it takes as long as a lease and a
// connection. Three times that is late enough to mean that nobody signs.
//
// It is counted from when somebody has seen the event, never from the time that
// the event says: that is the clock of whoever appended it, and may be altered as
// long as nothing is signed.
const signingTime = 10 * time.Second

// pollMost is the longest pause between two looks for whether logs are signed for.
const pollMost = time.Second

// Due returns, of logs that are not signed for, up to which event they should be:
// their heads as they were signingTime before it returns, which is at once if all
// is signed. A verification takes it, see [Check]. No workspaces are all.
func Due(ctx context.Context, db *pgxpool.Pool, workspaces ...events.ID) (map[events.ID]int64, error) {
	due, err := unsigned(ctx, db, workspaces)
	end := time.Now().Add(signingTime)
	for wait := 10 * time.Millisecond; err == nil && len(due) > 0 && time.Now().Before(end); wait = min(2*wait, pollMost) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		var now map[events.ID]tail
		now, err = unsigned(ctx, db, workspaces)
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

// A tail is the part of a log that is not signed for: what follows signed. If that
// is beyond head, more was signed for than there is.
type tail struct{ head, signed int64 }

// unsigned returns the tails of the logs of workspaces, or if those are none of all
// logs that have one. It does not take the prover's word for how far it has come,
// which is anybody's, but looks for what is signed.
func unsigned(ctx context.Context, db *pgxpool.Pool, workspaces []events.ID) (map[events.ID]tail, error) {
	list := map[events.ID]tail{}
	var workspace events.ID
	var t tail
	if len(workspaces) == 0 {
		rows, _ := db.Query(ctx, tailsSQL)
		_, err := pgx.ForEachRow(rows, []any{&workspace, &t.head, &t.signed}, func() error { list[workspace] = t; return nil })
		return list, err
	}
	for _, workspace := range workspaces {
		err := db.QueryRow(ctx, `
			select coalesce((select head from logs where workspace_id = $1), 0),
				coalesce((select max(size) from proof_checkpoints where workspace_id = $1), 0)`, workspace).Scan(&t.head, &t.signed)
		if err != nil {
			return nil, err
		}
		if t.head != t.signed {
			list[workspace] = t
		}
	}
	return list, nil
}

// tailsSQL finds the tails of all logs.
const tailsSQL = `
	select l.workspace_id, l.head, c.size from logs l cross join lateral (
		select coalesce(max(size), 0) as size from proof_checkpoints c where c.workspace_id = l.workspace_id) c
	where l.head <> c.size`
