package fold

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// rowsPerInsert is the number of rows in a multi-row insert. Remaining rows are inserted one by
// one, so that each table needs only two prepared statements.
const rowsPerInsert = 16

// write queues upserts of rows in the given order; a nil row is deleted.
func (t *Table[K, R]) write(b *pgx.Batch, table string, order []RowID[K], rows map[RowID[K]]*R) {
	var present []*R
	flush := func() {
		for len(present) > 0 {
			n := 1
			if len(present) >= rowsPerInsert {
				n = rowsPerInsert
			}
			t.upsert(b, table, present[:n])
			present = present[n:]
		}
	}
	for _, id := range order {
		if row := rows[id]; row != nil {
			present = append(present, row)
			continue
		}
		flush()
		b.Queue(fmt.Sprintf(`delete from %s where workspace_id = $1 and %s = $2`, table, t.Key), id.Workspace, id.Key)
	}
	flush()
}

func (t *Table[K, R]) upsert(b *pgx.Batch, table string, rows []*R) {
	columns := t.columns()
	var sets, tuples []string
	for _, c := range columns {
		sets = append(sets, c+" = excluded."+c)
	}
	var args []any
	for _, row := range rows {
		var placeholders []string
		for _, field := range fields(row) {
			args = append(args, field)
			placeholders = append(placeholders, "$"+strconv.Itoa(len(args)))
		}
		tuples = append(tuples, "("+strings.Join(placeholders, ", ")+")")
	}
	b.Queue(fmt.Sprintf(`insert into %s (%s) values %s on conflict (%s) do update set %s`, table,
		strings.Join(columns, ", "), strings.Join(tuples, ", "), strings.Join(t.PrimaryKey(), ", "), strings.Join(sets, ", "),
	), args...)
}

// LookupIndexes returns the index of the primary key.
func (t *Table[K, R]) LookupIndexes() []string { return []string{t.View + "_pkey"} }

// Copy folds the records that next returns in memory and copies the rows into a table.
func (t *Table[K, R]) Copy(ctx context.Context, tx pgx.Tx, table string, behind bool,
	next func() ([]events.Record, error), park ParkFunc) error {
	rows := map[RowID[K]]*R{}
	var stored []RowID[K] // keys in rows that the table already has
	for {
		records, err := next()
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return t.replaceRows(ctx, tx, table, rows, stored)
		}
		if behind {
			found, err := t.fetch(ctx, tx, table, records, rows)
			if err != nil {
				return err
			}
			stored = append(stored, found...)
		}
		for _, r := range records {
			if err := t.Fold(rows, r); err != nil {
				if err := park(r.Workspace, r.Seq, err); err != nil {
					return err
				}
			}
		}
	}
}

// fetch reads the rows that records touch into rows, unless rows has them, and returns the keys
// that the table has.
func (t *Table[K, R]) fetch(ctx context.Context, tx pgx.Tx, table string, records []events.Record,
	rows map[RowID[K]]*R) (stored []RowID[K], err error) {
	var touched []RowID[K]
	for _, r := range records {
		for _, k := range t.Keys(r) {
			id := RowID[K]{r.Workspace, k}
			if _, known := rows[id]; !known {
				rows[id], touched = nil, append(touched, id)
			}
		}
	}
	if len(touched) == 0 {
		return nil, nil
	}
	b := &pgx.Batch{}
	t.read(b, table, touched, rows)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("read rows of %s: %w", table, err)
	}
	for _, id := range touched {
		if rows[id] != nil {
			stored = append(stored, id)
		}
	}
	return stored, nil
}

// replaceRows replaces the stored rows of one log by rows.
func (t *Table[K, R]) replaceRows(ctx context.Context, tx pgx.Tx, table string, rows map[RowID[K]]*R, stored []RowID[K]) error {
	if len(stored) > 0 {
		keys := make([]K, len(stored))
		for i, id := range stored {
			keys[i] = id.Key
		}
		sql := fmt.Sprintf(`delete from %s where workspace_id = $1 and %s = any($2::%s[])`, table, t.Key, t.keyType())
		if _, err := tx.Exec(ctx, sql, stored[0].Workspace, keys); err != nil {
			return fmt.Errorf("delete rows of %s: %w", table, err)
		}
	}
	return t.copyRows(ctx, tx, table, rows)
}

func (t *Table[K, R]) copyRows(ctx context.Context, tx pgx.Tx, table string, rows map[RowID[K]]*R) error {
	values := make([][]any, 0, len(rows))
	for _, row := range rows {
		if row != nil {
			values = append(values, fields(row))
		}
	}
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{table}, t.columns(), pgx.CopyFromRows(values)); err != nil {
		return fmt.Errorf("copy into %s: %w", table, err)
	}
	return nil
}
