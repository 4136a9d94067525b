package fold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

// A Parked is an event that a followed view could not take in. The view has gone
// on without it.
type Parked struct {
	Workspace events.ID
	View      string
	Seq       int64
	Kind      string
	Error     string
	At        time.Time
}

// ListParked returns all that are parked, by view and log.
func ListParked(ctx context.Context, db *pgxpool.Pool) ([]Parked, error) {
	rows, _ := db.Query(ctx, `select workspace_id, view, seq, kind, error, at from parked order by view, workspace_id, seq`)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Parked])
	if err != nil {
		return nil, fmt.Errorf("list parked events: %w", err)
	}
	return list, nil
}

// Skip forgets a parked event: the view is right without it. It reports
// whether there was one. A rebuild tries the event again, and parks it again if
// it still cannot be taken in.
func Skip(ctx context.Context, db *pgxpool.Pool, view string, workspace events.ID, seq int64) (bool, error) {
	tag, err := db.Exec(ctx, `delete from parked where workspace_id = $1 and view = $2 and seq = $3`, workspace, view, seq)
	if err != nil {
		return false, fmt.Errorf("skip event %d of %s: %w", seq, workspace, err)
	}
	return tag.RowsAffected() > 0, nil
}

// errFold says that the function of a view cannot make anything of an event.
var errFold = errors.New("the view cannot take in an event")

// poisonous reports whether err is of an event, so that it comes again however
// often the event is tried, and not of the database or of this build. A kind
// that is not known is none of that: a newer build knows it, and takes over.
func poisonous(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		class := pg.Code[:2]
		return class == "22" || class == "54" // a value that does not fit, or is too long for an index
	}
	return errors.Is(err, errFold) || errors.Is(err, events.ErrDamaged)
}

// queuePark queues that an event is left out.
func queuePark(b *pgx.Batch, view string, workspace events.ID, seq int64, err error) {
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "")
	b.Queue(`
		insert into parked (workspace_id, view, seq, kind, error, at)
		select workspace_id, $2, seq, kind, $4, now() from events where workspace_id = $1 and seq = $3
		on conflict (workspace_id, view, seq) do update set error = excluded.error, at = excluded.at`, workspace, view, seq, text)
}

// readOn reads on in a log for a view. Events that are damaged it hands to
// park, and goes on behind them; at is where it has got to.
func readOn(ctx context.Context, db store.Querier, v View, workspace events.ID, seq int64, limit int,
	park func(seq int64, err error)) (list []events.Record, at int64, err error) {
	for {
		list, err := v.After(ctx, db, []store.Position{{Workspace: workspace, Seq: seq}}, limit)
		switch {
		case err == nil && len(list) == 0:
			return nil, seq, nil
		case err == nil:
			return list, list[len(list)-1].Seq, nil
		case !poisonous(err):
			return nil, seq, err
		case limit > 1:
			limit /= 2
		default:
			seq++
			park(seq, err)
			return nil, seq, nil
		}
	}
}
