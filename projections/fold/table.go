package fold

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// A Table is a view with one row R for each key K.
//
// The fields of R name their columns in `db` tags. Unless the key is unique over all workspaces,
// the primary key begins with workspace_id.
type Table[K comparable, R any] struct {
	View           string // name of the view and of its table
	Updated        Mode
	Kinds          []string                                        // kinds of events that it folds; a noun stands for all of its kinds
	Key            string                                          // column of K
	GlobalKey      bool                                            // K is unique over all workspaces
	PrimaryColumns []string                                        // columns of the primary key, if they are not the default
	PastForms      int                                             // number of earlier forms of the rows
	Keys           func(r events.Record) []K                       // keys of the rows that r touches; r may have no position yet
	Apply          func(key K, row *R, r events.Record) (after *R) // row is nil if there is none; a nil result deletes it
}

// Name returns the name of the view.
func (t *Table[K, R]) Name() string { return t.View }

// Mode returns how the view is kept up to date.
func (t *Table[K, R]) Mode() Mode { return t.Updated }

// Form returns the version of the rows' form.
func (t *Table[K, R]) Form() int { return 1 + t.PastForms }

// Folds reports whether the view folds events of a kind.
func (t *Table[K, R]) Folds(kind string) bool {
	noun, _, _ := strings.Cut(kind, ".")
	return slices.Contains(t.Kinds, noun) || slices.Contains(t.Kinds, kind)
}

// FoldsDamaged returns false: a table folds only events that can be decoded.
func (t *Table[K, R]) FoldsDamaged() bool { return false }

// Read reads the next events of logs and decodes the kinds that the view folds.
func (t *Table[K, R]) Read(ctx context.Context, db store.Querier, list []store.Position, limit int) ([]events.Record, error) {
	return store.Page{Logs: list, Limit: limit, Kinds: t.Kinds}.Read(ctx, db)
}

// PrimaryKey returns the columns of the primary key.
func (t *Table[K, R]) PrimaryKey() []string {
	switch {
	case t.PrimaryColumns != nil:
		return t.PrimaryColumns
	case t.GlobalKey:
		return []string{t.Key}
	}
	return []string{"workspace_id", t.Key}
}

// Load queues reading the rows that records touch. The step folds the records and queues the
// writes.
func (t *Table[K, R]) Load(b *pgx.Batch, table string, records []events.Record) Step {
	before := map[RowID[K]]*R{}
	var order []RowID[K] // rows are written in the order they were first touched
	for _, r := range records {
		for _, k := range t.Keys(r) {
			id := RowID[K]{r.Workspace, k}
			if _, found := before[id]; !found {
				before[id], order = nil, append(order, id)
			}
		}
	}
	if len(order) == 0 {
		return nil
	}
	t.read(b, table, order, before)
	return func(b *pgx.Batch) (Step, error) {
		after := maps.Clone(before)
		for _, r := range records {
			if err := t.Fold(after, r); err != nil {
				return nil, err
			}
		}
		t.write(b, table, order, before, after)
		return nil, nil
	}
}

// A RowID identifies a row of a workspace.
type RowID[K comparable] struct {
	Workspace events.ID
	Key       K
}

// Fold folds r into rows. It replaces rows and never modifies them in place.
func (t *Table[K, R]) Fold(rows map[RowID[K]]*R, r events.Record) error {
	return t.foldKeys(rows, r, func(K) bool { return true })
}

// foldKeys is Fold for the keys that wanted accepts.
func (t *Table[K, R]) foldKeys(rows map[RowID[K]]*R, r events.Record, wanted func(K) bool) (err error) {
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

// read queues reading the rows of ids, which into has. A global key's row in another workspace is not among them.
func (t *Table[K, R]) read(b *pgx.Batch, table string, ids []RowID[K], into map[RowID[K]]*R) {
	keys := make([]K, len(ids))
	workspaces := make([]events.ID, len(ids))
	for i, id := range ids {
		keys[i], workspaces[i] = id.Key, id.Workspace
	}
	where := `t.` + t.Key + ` = k.key`
	if !t.GlobalKey {
		where = `t.workspace_id = k.workspace_id and ` + where
	}
	// "offset 0" forces a lookup by key for each row, even if the planner has statistics from an
	// empty table. The arrays are sub-selects so that one plan serves arrays of any length.
	sql := fmt.Sprintf(`
		select r.* from unnest((select $1::uuid[]), (select $2::%s[])) as k (workspace_id, key)
		cross join lateral (select %s from %s t where %s offset 0) r`, t.keyType(), strings.Join(t.columns(), ", "), table, where)
	b.Queue(sql, workspaces, keys).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[R])
		for _, row := range found {
			id := t.id(row)
			if _, wanted := into[id]; wanted {
				into[id] = row
			}
		}
		return err
	})
}

// keyType returns the SQL type of K.
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

// id returns the identity of a row.
func (t *Table[K, R]) id(row *R) (id RowID[K]) {
	v := reflect.ValueOf(row).Elem()
	for i, c := range t.columns() {
		if c == t.Key { // in a table of workspaces this is workspace_id
			id.Key = v.Field(i).Interface().(K)
		}
		if c == "workspace_id" {
			id.Workspace = v.Field(i).Interface().(events.ID)
		}
	}
	return id
}

// columns returns the column names in the order of R's fields.
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
