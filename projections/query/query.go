// Package query has what queries of several views have in common.
package query

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// A Named is the result of a search by name.
type Named struct {
	ID          events.ID
	Name, State string
}

// Optional reads at most one row. ok is false if there is none.
func Optional[T any](rows pgx.Rows, what string) (row T, ok bool, err error) {
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return row, false, fmt.Errorf("read %s: %w", what, err)
	}
	if len(list) == 0 {
		return row, false, nil
	}
	return list[0], true, nil
}
