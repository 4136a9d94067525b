package fold

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
)

// A ParkedEvent is an event that a followed view could not fold and has skipped.
type ParkedEvent struct {
	Workspace events.ID
	View      string
	Seq       int64
	Kind      string
	Error     string
	At        time.Time
}

// ListParked returns all parked events, ordered by view and log.
func ListParked(ctx context.Context, db *pgxpool.Pool) ([]ParkedEvent, error) {
	rows, _ := db.Query(ctx, `select workspace_id, view, seq, kind, error, at from parked order by view, workspace_id, seq`)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ParkedEvent])
	return list, fault.Wrap(err, "list parked events")
}

// SkipParked deletes a parked event: an operator accepts the view without it. It reports whether there
// was one. A rebuild tries the event again, and parks it again if it still cannot be folded.
func SkipParked(ctx context.Context, db *pgxpool.Pool, view string, workspace events.ID, seq int64) (bool, error) {
	tag, err := db.Exec(ctx, `delete from parked where workspace_id = $1 and view = $2 and seq = $3`, workspace, view, seq)
	return tag.RowsAffected() > 0, fault.Wrap(err, "skip event %d of %s", seq, workspace)
}

// errFold says that a view's fold function failed on an event.
var errFold = errors.New("the view cannot apply an event")

// CausedByEvent reports whether err is caused by the event itself and would recur at each retry, as
// opposed to a failure of the database. An event of an unknown kind is not the cause: a newer build
// knows the kind and will process it.
func CausedByEvent(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		class := pg.Code[:2]
		return class == "22" || class == "54" // data exception, or a program limit such as the size of an index row
	}
	return errors.Is(err, errFold) || errors.Is(err, events.ErrDamaged)
}

// QueuePark queues a row of parked, or of a table like it, for an event.
func QueuePark(b *pgx.Batch, table, view string, workspace events.ID, seq int64, err error) {
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "")
	b.Queue(`
		insert into `+table+` (workspace_id, view, seq, kind, error, at)
		select $1, $2, seq, kind, $4, now() from events where workspace_id = $1 and seq = $3
		on conflict (workspace_id, view, seq) do update set error = excluded.error, at = excluded.at`, workspace, view, seq, text)
}
