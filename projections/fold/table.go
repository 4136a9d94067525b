package fold

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// A Table is a view whose rows are R, each known by a key K.
//
// The fields of R carry the names of the columns in `db` tags. Where the key is
// not unique by itself, workspace_id leads it.
type Table[K comparable, R any] struct {
	View   string // its name, and the table's
	KeptBy Kept
	Kinds  []string                                        // begin the kinds of the events that it takes in, or are such kinds
	Key    string                                          // the column of K
	Alone  bool                                            // K is unique over all workspaces
	Unique []string                                        // the primary key, if it is not the key
	Forms  int                                             // how many forms the rows had before this one
	Keys   func(r events.Record) []K                       // the rows that r touches; no position in r yet
	Apply  func(key K, row *R, r events.Record) (after *R) // row is nil if there is none; so is after, to delete it
}

// Name is that of the view.
func (t *Table[K, R]) Name() string { return t.View }

// Kept says who keeps the view.
func (t *Table[K, R]) Kept() Kept { return t.KeptBy }

// Form counts the forms that the rows have had.
func (t *Table[K, R]) Form() int { return 1 + t.Forms }

// Takes reports whether the view takes in events of a kind.
func (t *Table[K, R]) Takes(kind string) bool {
	noun, _, _ := strings.Cut(kind, ".")
	return slices.Contains(t.Kinds, noun) || slices.Contains(t.Kinds, kind)
}

// TakesUnread reports that a table takes in nothing that cannot be decoded.
func (t *Table[K, R]) TakesUnread() bool { return false }

// After reads on in logs, and decodes what the view takes in.
func (t *Table[K, R]) After(ctx context.Context, db store.Querier, list []store.Position, limit int) ([]events.Record, error) {
	return store.AfterKinds(ctx, db, t.Kinds, list, limit)
}

// PrimaryKey names the columns that order the rows.
func (t *Table[K, R]) PrimaryKey() []string {
	switch {
	case t.Unique != nil:
		return t.Unique
	case t.Alone:
		return []string{t.Key}
	}
	return []string{"workspace_id", t.Key}
}

// Load queues reading the rows that records touch, to fold and write them in a step.
func (t *Table[K, R]) Load(b *pgx.Batch, table string, records []events.Record) Step {
	before := map[RowID[K]]*R{}
	var order []RowID[K] // rows are written in the order they were first touched
	for _, r := range records {
		for _, k := range t.Keys(r) {
			id := RowID[K]{r.Workspace, k}
			if _, seen := before[id]; !seen {
				before[id], order = nil, append(order, id)
			}
		}
	}
	if len(order) == 0 {
		return nil
	}
	t.read(b, table, order, before)
	return func(b *pgx.Batch) (Step, error) {
		after := map[RowID[K]]*R{}
		for id, row := range before {
			after[id] = row
		}
		for _, r := range records {
			if err := t.Take(after, r); err != nil {
				return nil, err
			}
		}
		t.write(b, table, order, after)
		return nil, nil
	}
}

// A RowID says which row of which workspace.
type RowID[K comparable] struct {
	Workspace events.ID
	Key       K
}

// Take folds r into rows. Rows of before are never changed, only replaced.
func (t *Table[K, R]) Take(rows map[RowID[K]]*R, r events.Record) error {
	return t.takeOf(rows, r, func(K) bool { return true })
}

// takeOf is Take of the rows whose keys are wanted.
func (t *Table[K, R]) takeOf(rows map[RowID[K]]*R, r events.Record, wanted func(K) bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: view %s: %s, event %d of %s: %v", errFold, t.View, r.Event.Kind(), r.Seq, r.Workspace, p)
		}
	}()
	for _, k := range t.Keys(r) {
		if !wanted(k) {
			continue
		}
		id := RowID[K]{r.Workspace, k}
		rows[id] = t.Apply(k, rows[id], r)
	}
	return nil
}

func (t *Table[K, R]) read(b *pgx.Batch, table string, ids []RowID[K], into map[RowID[K]]*R) {
	keys := make([]K, len(ids))
	workspaces := make([]events.ID, len(ids))
	for i, id := range ids {
		keys[i], workspaces[i] = id.Key, id.Workspace
	}
	where := `t.` + t.Key + ` = k.key`
	if !t.Alone {
		where = `t.workspace_id = k.workspace_id and ` + where
	}
	// "offset 0" keeps each row a look-up by key, whatever the planner believed
	// of the table when it was empty. As sub-selects the arrays are unknown to it,
	// so that it plans once and not for each array.
	sql := fmt.Sprintf(`
		select r.* from unnest((select $1::uuid[]), (select $2::%s[])) as k (workspace_id, key)
		cross join lateral (select %s from %s t where %s offset 0) r`, t.keyType(), strings.Join(t.columns(), ", "), table, where)
	b.Queue(sql, workspaces, keys).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[R])
		for _, row := range found {
			into[t.id(row)] = row
		}
		return err
	})
}

// keyType is what K is called in SQL.
func (t *Table[K, R]) keyType() string {
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
func (t *Table[K, R]) id(row *R) (id RowID[K]) {
	v := reflect.ValueOf(row).Elem()
	for i, c := range t.columns() {
		if c == t.Key { // of workspaces it is the workspace_id
			id.Key = v.Field(i).Interface().(K)
		}
		if c == "workspace_id" {
			id.Workspace = v.Field(i).Interface().(events.ID)
		}
	}
	return id
}

// columns returns the columns of R in the order of its fields.
func (t *Table[K, R]) columns() (names []string) {
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
