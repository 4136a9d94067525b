// Package projections keeps tables that answer questions about events.
//
// A view is a fold: each row is what is left of the events that touched it.
// One function per view says so, and everything else follows from it: an
// inline view changes in the transaction that appends, a followed view a moment
// later, and a rebuild folds the whole log again and must come to the same rows.
// Views decide nothing. Each has one file: its table, its fold, its questions.
package projections

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// A fold is a table of rows R, each known by a key K.
//
// The fields of R carry the names of the columns in `db` tags. Where the key is
// not unique by itself, workspace_id leads it.
type fold[K comparable, R any] struct {
	table  string
	key    string                                          // the column of K
	alone  bool                                            // K is unique over all workspaces
	unique []string                                        // the primary key, if it is not the key
	forms  int                                             // how many forms the rows had before this one
	keys   func(r events.Record) []K                       // the rows that r touches; no position in r yet
	apply  func(key K, row *R, r events.Record) (after *R) // row is nil if there is none; so is after, to delete it
}

// A View is a fold whatever its rows are.
type View interface {
	// Name is that of the view and of its table.
	Name() string
	// load queues reading the rows that records touch. The step that it returns
	// folds the records into them and queues writing what changed; it is nil if
	// they touch none.
	load(b *pgx.Batch, table string, records []events.Record) step
	// copyLogs folds what next returns, until that is nothing, and writes the rows
	// to a table. That has none of these logs, unless behind says that it has those
	// that the one log came to before. It hands park what cannot be folded.
	copyLogs(ctx context.Context, tx pgx.Tx, table string, behind bool, next func() ([]events.Record, error), park parking) error
	// lookups names the indexes by which rows are found that are there.
	lookups() []string
	// after reads on in logs, as store.AfterOf does. What the view does not take
	// in need not be decoded.
	after(ctx context.Context, db store.Querier, list []store.Position, limit int) ([]events.Record, error)
	// comparison begins to compare a part of the rows of a workspace with its log.
	comparison(workspace events.ID, p part) comparison
	// primaryKey names the columns that order the rows.
	primaryKey() []string
	// form counts the forms that the rows have had, from 1.
	form() int
}

// A step queues a round trip, when what was queued before has been carried out.
// next, unless it is nil, is the step after it.
type step func(b *pgx.Batch) (next step, err error)

func (f *fold[K, R]) Name() string { return f.table }

func (f *fold[K, R]) form() int { return 1 + f.forms }

func (f *fold[K, R]) after(ctx context.Context, db store.Querier, list []store.Position, limit int) ([]events.Record, error) {
	return store.AfterOf(ctx, db, nouns[f.table], list, limit)
}

func (f *fold[K, R]) primaryKey() []string {
	switch {
	case f.unique != nil:
		return f.unique
	case f.alone:
		return []string{f.key}
	}
	return []string{"workspace_id", f.key}
}

func (f *fold[K, R]) load(b *pgx.Batch, table string, records []events.Record) step {
	before := map[rowID[K]]*R{}
	var order []rowID[K] // rows are written in the order they were first touched
	for _, r := range records {
		for _, k := range f.keys(r) {
			id := rowID[K]{r.Workspace, k}
			if _, seen := before[id]; !seen {
				before[id], order = nil, append(order, id)
			}
		}
	}
	if len(order) == 0 {
		return nil
	}
	f.read(b, table, order, before)
	return func(b *pgx.Batch) (step, error) {
		after := map[rowID[K]]*R{}
		for id, row := range before {
			after[id] = row
		}
		for _, r := range records {
			if err := f.one(after, r); err != nil {
				return nil, err
			}
		}
		f.write(b, table, order, after)
		return nil, nil
	}
}

// A rowID says which row of which workspace.
type rowID[K comparable] struct {
	workspace events.ID
	key       K
}

// one folds r into rows. Rows of before are never changed, only replaced.
func (f *fold[K, R]) one(rows map[rowID[K]]*R, r events.Record) error {
	return f.oneOf(rows, r, func(K) bool { return true })
}

// oneOf is one of the rows whose keys are wanted.
func (f *fold[K, R]) oneOf(rows map[rowID[K]]*R, r events.Record, wanted func(K) bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: view %s: %s, event %d of %s: %v", errFold, f.table, r.Event.Kind(), r.Seq, r.Workspace, p)
		}
	}()
	for _, k := range f.keys(r) {
		if !wanted(k) {
			continue
		}
		id := rowID[K]{r.Workspace, k}
		rows[id] = f.apply(k, rows[id], r)
	}
	return nil
}

func (f *fold[K, R]) read(b *pgx.Batch, table string, ids []rowID[K], into map[rowID[K]]*R) {
	keys := make([]K, len(ids))
	workspaces := make([]events.ID, len(ids))
	for i, id := range ids {
		keys[i], workspaces[i] = id.key, id.workspace
	}
	where := `t.` + f.key + ` = k.key`
	if !f.alone {
		where = `t.workspace_id = k.workspace_id and ` + where
	}
	// "offset 0" keeps each row a look-up by key, whatever the planner believed
	// of the table when it was empty. As sub-selects the arrays are unknown to it,
	// so that it plans once and not for each array.
	sql := fmt.Sprintf(`
		select r.* from unnest((select $1::uuid[]), (select $2::%s[])) as k (workspace_id, key)
		cross join lateral (select %s from %s t where %s offset 0) r`, f.keyType(), strings.Join(f.columns(), ", "), table, where)
	b.Queue(sql, workspaces, keys).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[R])
		for _, row := range found {
			into[f.id(row)] = row
		}
		return err
	})
}

// abreast is how many rows one statement writes, if there are as many. Others
// are written one by one, so that two statements do for each table.
const abreast = 16

// write queues writing rows in their order; a row that is nil is deleted.
func (f *fold[K, R]) write(b *pgx.Batch, table string, order []rowID[K], rows map[rowID[K]]*R) {
	var present []*R
	flush := func() {
		for len(present) > 0 {
			n := 1
			if len(present) >= abreast {
				n = abreast
			}
			f.upsert(b, table, present[:n])
			present = present[n:]
		}
	}
	for _, id := range order {
		if row := rows[id]; row != nil {
			present = append(present, row)
			continue
		}
		flush()
		b.Queue(fmt.Sprintf(`delete from %s where workspace_id = $1 and %s = $2`, table, f.key), id.workspace, id.key)
	}
	flush()
}

func (f *fold[K, R]) upsert(b *pgx.Batch, table string, rows []*R) {
	columns := f.columns()
	var sets, tuples []string
	for _, c := range columns {
		sets = append(sets, c+" = excluded."+c)
	}
	var args []any
	for _, row := range rows {
		var places []string
		for _, field := range fields(row) {
			args = append(args, field)
			places = append(places, "$"+strconv.Itoa(len(args)))
		}
		tuples = append(tuples, "("+strings.Join(places, ", ")+")")
	}
	b.Queue(fmt.Sprintf(`insert into %s (%s) values %s on conflict (%s) do update set %s`, table,
		strings.Join(columns, ", "), strings.Join(tuples, ", "), strings.Join(f.primaryKey(), ", "), strings.Join(sets, ", "),
	), args...)
}

// parking decides about an event that cannot be taken in: nil leaves it out, an
// error is the end.
type parking func(workspace events.ID, seq int64, err error) error

func (f *fold[K, R]) lookups() []string { return []string{f.table + "_pkey"} }

func (f *fold[K, R]) copyLogs(ctx context.Context, tx pgx.Tx, table string, behind bool, next func() ([]events.Record, error), park parking) error {
	rows := map[rowID[K]]*R{}
	var stored []rowID[K] // of rows, those that the table has
	for {
		records, err := next()
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return f.replaceRows(ctx, tx, table, rows, stored)
		}
		if behind {
			found, err := f.fetch(ctx, tx, table, records, rows)
			if err != nil {
				return err
			}
			stored = append(stored, found...)
		}
		for _, r := range records {
			if err := f.one(rows, r); err != nil {
				if err := park(r.Workspace, r.Seq, err); err != nil {
					return err
				}
			}
		}
	}
}

// fetch reads the rows that records touch into rows, unless they are there, and
// returns which of them the table has.
func (f *fold[K, R]) fetch(ctx context.Context, tx pgx.Tx, table string, records []events.Record, rows map[rowID[K]]*R) (stored []rowID[K], err error) {
	var touched []rowID[K]
	for _, r := range records {
		for _, k := range f.keys(r) {
			id := rowID[K]{r.Workspace, k}
			if _, known := rows[id]; !known {
				rows[id], touched = nil, append(touched, id)
			}
		}
	}
	if len(touched) == 0 {
		return nil, nil
	}
	b := &pgx.Batch{}
	f.read(b, table, touched, rows)
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

// replaceRows puts rows in the place of those of one log that are stored.
func (f *fold[K, R]) replaceRows(ctx context.Context, tx pgx.Tx, table string, rows map[rowID[K]]*R, stored []rowID[K]) error {
	if len(stored) > 0 {
		keys := make([]K, len(stored))
		for i, id := range stored {
			keys[i] = id.key
		}
		sql := fmt.Sprintf(`delete from %s where workspace_id = $1 and %s = any($2::%s[])`, table, f.key, f.keyType())
		if _, err := tx.Exec(ctx, sql, stored[0].workspace, keys); err != nil {
			return fmt.Errorf("delete rows of %s: %w", table, err)
		}
	}
	return f.copyRows(ctx, tx, table, rows)
}

func (f *fold[K, R]) copyRows(ctx context.Context, tx pgx.Tx, table string, rows map[rowID[K]]*R) error {
	values := make([][]any, 0, len(rows))
	for _, row := range rows {
		if row != nil {
			values = append(values, fields(row))
		}
	}
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{table}, f.columns(), pgx.CopyFromRows(values)); err != nil {
		return fmt.Errorf("copy into %s: %w", table, err)
	}
	return nil
}

// keyType is what K is called in SQL.
func (f *fold[K, R]) keyType() string {
	switch any(*new(K)).(type) {
	case events.ID:
		return "uuid"
	case events.Fingerprint:
		return "bytea"
	case int64:
		return "bigint"
	}
	return "text"
}

// id returns which row it is.
func (f *fold[K, R]) id(row *R) (id rowID[K]) {
	v := reflect.ValueOf(row).Elem()
	for i, c := range f.columns() {
		if c == f.key { // of workspaces it is the workspace_id
			id.key = v.Field(i).Interface().(K)
		}
		if c == "workspace_id" {
			id.workspace = v.Field(i).Interface().(events.ID)
		}
	}
	return id
}

// columns returns the columns of R in the order of its fields.
func (f *fold[K, R]) columns() (names []string) {
	for field := range reflect.TypeFor[R]().Fields() {
		names = append(names, field.Tag.Get("db"))
	}
	return names
}

func fields[R any](row *R) []any {
	v := reflect.ValueOf(row).Elem()
	list := make([]any, v.NumField())
	for i := range list {
		list[i] = v.Field(i).Interface()
	}
	return list
}
