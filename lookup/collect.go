package lookup

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Errors are errors of single keys. A query that returns them with what it has found fails the lookups
// of these keys and no others.
type Errors[K comparable] map[K]error

// Error returns the errors, sorted.
func (e Errors[K]) Error() string {
	var list []string
	for key, err := range e {
		list = append(list, fmt.Sprintf("%v: %v", key, err))
	}
	slices.Sort(list)
	return fmt.Sprint(list)
}

// ErrorOf returns the error of a key after a query that returned err.
func ErrorOf[K comparable](err error, key K) error {
	if each, ok := errors.AsType[Errors[K]](err); ok {
		return each[key]
	}
	return err
}

// Collect scans the rows of a query for several keys, of what. A row that cannot be decoded, as no process of this service
// writes one, is an error of its own key, in [Errors]. Columns are scanned in order: keyOf gets what the ones
// before the column that cannot be decoded contain, so those of the key have to come first.
func Collect[K comparable, V any](
	rows pgx.Rows, what string, scan func(pgx.CollectableRow) (V, error), keyOf func(V) K,
) (map[K]V, error) {
	defer rows.Close()
	found, failed := map[K]V{}, Errors[K]{}
	for rows.Next() {
		v, err := scan(openRow{rows})
		if err != nil {
			failed[keyOf(v)] = fmt.Errorf("read %s: %w", what, err)
			continue
		}
		found[keyOf(v)] = v
	}
	switch err := rows.Err(); {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", what, err)
	case len(failed) > 0:
		return found, failed
	}
	return found, nil
}

// An openRow leaves the rows after it open if it cannot be decoded.
type openRow struct{ pgx.Rows }

func (r openRow) Scan(dest ...any) error {
	return pgx.ScanRow(r.Conn().TypeMap(), r.FieldDescriptions(), r.RawValues(), dest...)
}
