package rebuild

import (
	"context"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/projections/fold"
)

// compare collects the workspaces and rows in which the live view differs from the next table. It
// skips logs that the two have folded to different positions. It reads both tables in one snapshot
// and locks nothing. Rows of a workspace without a log count as different.
func (r *rebuild) compare(ctx context.Context) error {
	positions := `select workspace_id, head from logs`
	if r.followed() {
		positions = `select workspace_id, seq from checkpoints where view = '` + r.view.Name() + `'`
	}
	return pgx.BeginTxFunc(ctx, r.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		sum := `select workspace_id, count(*) as n, sum(hashtextextended(t::text, 0)) as sum from %s t group by workspace_id`
		rows, _ := tx.Query(ctx, fmt.Sprintf(`
			with live as (`+sum+`), next as (`+sum+`), position (workspace_id, seq) as (`+positions+`)
			select workspace_id from live full join next using (workspace_id) left join position p using (workspace_id)
			left join (select workspace_id, seq from rebuilds where view = $1) r using (workspace_id)
			where (live.n, live.sum) is distinct from (next.n, next.sum) and coalesce(p.seq, 0) = coalesce(r.seq, 0) order by 1`,
			r.view.Name(), r.nextTable), r.view.Name())
		var err error
		if r.Differing, err = pgx.CollectRows(rows, pgx.RowTo[events.ID]); err != nil {
			return fmt.Errorf("compare with the live view: %w", err)
		}
		for _, workspace := range r.Differing {
			if err := r.nameRows(ctx, tx, workspace); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	maxNamedRows = 100 // differing rows that a rebuild reports
	maxTextShown = 200 // characters shown of a value
)

// nameRows reports the rows of a workspace in which the tables differ.
func (r *rebuild) nameRows(ctx context.Context, tx pgx.Tx, workspace events.ID) error {
	left := maxNamedRows - len(r.Rows)
	if left <= 0 {
		return nil
	}
	keys := r.view.PrimaryKey()
	key := keys[len(keys)-1]
	side := `select ` + key + `::text as key, t::text as row, to_jsonb(t) as columns from %s t where workspace_id = $1`
	differing := `
		select string_agg(e.key || ' ' || left(e.value::text, $3), ', ' order by e.key) from jsonb_each(%[1]s.columns) e
		where %[2]s.columns is null or %[2]s.columns -> e.key is distinct from e.value`
	rows, _ := tx.Query(ctx, fmt.Sprintf(`
		with live as (`+side+`), next as (`+side+`)
		select coalesce(live.key, next.key), live.key is not null, next.key is not null, coalesce((%s), ''), coalesce((%s), '')
		from live full join next on live.key = next.key
		where live.row is distinct from next.row order by 1 limit $2`,
		r.view.Name(), r.nextTable, fmt.Sprintf(differing, "live", "next"), fmt.Sprintf(differing, "next", "live")),
		workspace, left, maxTextShown)
	d := fold.Difference{Workspace: workspace, View: r.view.Name()}
	var stored, logged bool
	_, err := pgx.ForEachRow(rows, []any{&d.Key, &stored, &logged, &d.Stored, &d.Logged}, func() error {
		row := d
		row.Key, row.Stored, row.Logged = withoutBytes(d.Key), withoutBytes(d.Stored), withoutBytes(d.Logged)
		if stored && logged && row.Stored+row.Logged == "" {
			row.Stored, row.Logged = "the same in another spelling", "the same"
		}
		r.Rows = append(r.Rows, row)
		return nil
	})
	if err != nil {
		return fmt.Errorf("name the rows of %s: %w", workspace, err)
	}
	return nil
}

// longBytes matches a bytea value as PostgreSQL prints it. It may be the fingerprint of a token.
var longBytes = regexp.MustCompile(`\\+x([0-9a-f]{16})[0-9a-f]+`)

func withoutBytes(s string) string { return longBytes.ReplaceAllString(s, "$1…") }
