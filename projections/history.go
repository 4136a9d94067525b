package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/projections/auditlog"
)

// History reconstructs past states of a workspace from its events.
type History struct{ DB *pgxpool.Pool }

// Head returns the number and time of the last event of a workspace; the number is 0 if there is
// none.
func (h History) Head(ctx context.Context, workspace events.ID) (seq int64, at time.Time, err error) {
	rows, _ := h.DB.Query(ctx, `select head, last_at from logs where workspace_id = $1`, workspace)
	_, err = pgx.ForEachRow(rows, []any{&seq, &at}, func() error { return nil })
	return seq, at, fault.Wrap(err, "read head of %s", workspace)
}

// SeqAt returns the number of the last event at or before a time, up to head; 0 if there is none.
// Times never decrease in a log, so a binary search finds it without an index on times.
func (h History) SeqAt(ctx context.Context, workspace events.ID, at time.Time, head int64) (int64, error) {
	return auditlog.SeqAt(ctx, h.DB, workspace, at, head)
}

// historyPage is how many events of a log one statement scans, however many match. With a limit
// clause instead, the planner would expect few matches and scan the whole rest of the log each
// time.
const historyPage = 4000

// At returns a workspace as it was after event seq. It skips events that are not part of the state.
// It returns [ErrStateTooLarge] if there are too many members, invitations and service accounts.
func (h History) At(ctx context.Context, workspace events.ID, seq int64) (*State, error) {
	s := &State{}
	for after := int64(0); after < seq; after += historyPage {
		rows, _ := h.DB.Query(ctx, `
			select `+store.EventColumns+` from events
			where workspace_id = $1 and seq > $2 and seq <= $3 and (split_part(kind, '.', 1) = any($4) or seq = $5)
			order by seq`, workspace, after, min(after+historyPage, seq), events.NounsWhere(func(n events.Noun) bool { return n.State }), seq)
		_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (none struct{}, err error) {
			r, err := store.Scan(row)
			if err == nil {
				_, err = s.Apply(r)
			}
			return none, err
		})
		if err != nil {
			return nil, fmt.Errorf("read log %s after %d: %w", workspace, after, err)
		}
		if s.rowCount() > maxStateRows {
			return nil, ErrStateTooLarge
		}
	}
	if s.Seq != seq {
		return nil, errors.Join(ErrUnreadable.With("seq", seq), fmt.Errorf("event %d of %s is missing", seq, workspace))
	}
	return s, nil
}

// Steps returns the records after number after, up to upTo. A missing record is an error. Records of
// events that are not part of the state are summaries.
func (h History) Steps(ctx context.Context, workspace events.ID, after, upTo int64) (records []auditlog.AuditRecord, err error) {
	for after < upTo {
		list, err := store.Page{Logs: store.After(workspace, after), Limit: int(upTo - after), Decode: store.Lenient}.Read(ctx, h.DB)
		if err != nil || len(list) == 0 {
			return records, err
		}
		for _, r := range list {
			after = r.Seq
			if !events.NounOf(r.Event.Kind()).State {
				r = r.Summary()
			}
			records = append(records, auditlog.NewAuditRecord(r, ""))
		}
	}
	return records, nil
}
