package query

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/input"
)

// MatchingIDs returns the ids of the rows of queries, in their order, that a search finds: those whose
// text contains it in the form of [input.SearchText], and those of which it is the number, which are
// moved to the front if numberFirst is set. Each query selects an id, a number and a text. Texts are
// compared here, since what PostgreSQL knows of letters depends on the locale of the database.
func MatchingIDs(
	ctx context.Context, db *pgxpool.Pool, search string, numberFirst bool, args []any, queries ...string,
) (ids []events.ID, err error) {
	var id events.ID
	var number, text string
	var first []events.ID
	part, b := input.SearchText(search), &pgx.Batch{}
	for _, sql := range queries {
		b.Queue(sql, args...).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&id, &number, &text}, func() error {
				switch {
				case number == search && numberFirst:
					first = append(first, id)
				case number == search, strings.Contains(input.SearchText(text), part):
					ids = append(ids, id)
				}
				return nil
			})
			return err
		})
	}
	err = db.SendBatch(ctx, b).Close()
	return append(first, ids...), err
}

// RowsInOrder returns a query of columns of rows of a workspace, parameter 1, in the order of their ids,
// parameter 2.
func RowsInOrder(columns, table, key string) string {
	return fmt.Sprintf(`
		select r.* from unnest((select $2::uuid[])) with ordinality as k (id, n)
		cross join lateral (select %s from %s where workspace_id = $1 and %s = k.id offset 0) r
		order by k.n`, columns, table, key)
}

// PageOf returns the part of a list on a page.
func PageOf[T any](list []T, limit, offset int) []T {
	list = list[min(offset, len(list)):]
	return list[:min(limit, len(list))]
}
