package fold

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
)

// maxRows is the highest number of rows that a statement writes. Statements write a power of two of them, so
// that each table needs few prepared statements whatever the number of rows is.
const maxRows = 64

// write queues deletes of the rows that are nil, then upserts of the others in the given order. If the
// primary key does not contain the key, an upsert does not find a row whose other columns have changed:
// the row of before is deleted first.
func (t *Table[K, R]) write(b *pgx.Batch, table string, order []RowID[K], before, rows map[RowID[K]]*R) {
	var deleted []RowID[K]
	present := make([]*R, 0, len(order))
	replaces := !slices.Contains(t.PrimaryKey(), t.Key)
	for _, id := range order {
		row, old := rows[id], before[id]
		if row != nil {
			present = append(present, row)
		}
		if row == nil || replaces && old != nil && row != old {
			deleted = append(deleted, id)
		}
	}
	for n := 0; len(deleted) > 0; deleted = deleted[n:] {
		n = statementRows(len(deleted))
		t.delete(b, table, deleted[:n])
	}
	for n := 0; len(present) > 0; present = present[n:] {
		n = statementRows(len(present))
		t.upsert(b, table, present[:n])
	}
}

// statementRows returns how many of n rows the next statement writes.
func statementRows(n int) int { return min(1<<(bits.Len(uint(n))-1), maxRows) }

func (t *Table[K, R]) delete(b *pgx.Batch, table string, ids []RowID[K]) {
	var conditions []string
	var args []any
	for _, id := range ids {
		args = append(args, id.Workspace, id.Key)
		conditions = append(conditions, fmt.Sprintf("workspace_id = $%d and %s = $%d", len(args)-1, t.Key, len(args)))
	}
	b.Queue(fmt.Sprintf(`delete from %s where %s`, table, strings.Join(conditions, " or ")), args...)
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

// A tableLoader loads rows of a table.
type tableLoader[K comparable, R any] struct {
	*Table[K, R]
	table  string
	onto   bool
	rows   map[RowID[K]]*R
	stored []RowID[K] // keys in rows that the table has
}

// Loader returns a loader of rows into a table.
func (t *Table[K, R]) Loader(table string, onto bool) Loader {
	return &tableLoader[K, R]{Table: t, table: table, onto: onto, rows: map[RowID[K]]*R{}}
}

func (l *tableLoader[K, R]) Fold(ctx context.Context, tx pgx.Tx, records []events.Record, park ParkFunc) error {
	if l.onto {
		found, err := l.fetch(ctx, tx, l.table, records, l.rows)
		if err != nil {
			return err
		}
		l.stored = append(l.stored, found...)
	}
	for _, r := range records {
		if err := l.Table.Fold(l.rows, r); err != nil {
			if err := park(r.Workspace, r.Seq, err); err != nil {
				return err
			}
		}
	}
	if !l.onto {
		maps.DeleteFunc(l.rows, func(_ RowID[K], row *R) bool { return row == nil })
	}
	return nil
}

func (l *tableLoader[K, R]) Write(ctx context.Context, tx pgx.Tx) error {
	return l.replaceRows(ctx, tx, l.table, l.rows, l.stored)
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
	if len(values) == 0 {
		return nil
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{table}, t.columns(), pgx.CopyFromRows(values))
	return fault.Wrap(err, "copy into %s", table)
}
