package migrations

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/fault"
)

// A row is a migration recorded in the database.
type row struct {
	Version     int
	Description string
	Checksum    int32
	AppliedAt   time.Time
	DurationMS  int64
	Success     bool
}

// A history is the table schema_history in the current schema of a connection.
type history struct {
	conn       *pgx.Conn
	schema     string
	table      string // quoted and with its schema, because a migration may change the search path
	searchPath string
	found      bool // rows has found the table
}

const tableName = "schema_history"

func openHistory(ctx context.Context, conn *pgx.Conn) (*history, error) {
	h := &history{conn: conn}
	var schema *string
	err := conn.QueryRow(ctx, `select current_schema(), current_setting('search_path')`).Scan(&schema, &h.searchPath)
	if err != nil {
		return nil, fmt.Errorf("read current schema: %w", err)
	}
	if schema == nil {
		return nil, fmt.Errorf("no schema of the search path %s exists", h.searchPath)
	}
	h.schema = *schema
	h.table = pgx.Identifier{h.schema, tableName}.Sanitize()
	return h, nil
}

// rows returns the history sorted by version, or nothing if there is no table.
func (h *history) rows(ctx context.Context) ([]row, error) {
	err := h.conn.QueryRow(ctx, `select to_regclass($1) is not null`, h.table).Scan(&h.found)
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", h.table, err)
	}
	if !h.found {
		return nil, nil
	}
	result, err := h.conn.Query(ctx, `
		select version, description, checksum, applied_at, duration_ms, success
		from `+h.table+` order by version`)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", h.table, err)
	}
	rows, err := pgx.CollectRows(result, pgx.RowToStructByPos[row])
	return rows, fault.Wrap(err, "read %s", h.table)
}

// create creates the table. It refuses a schema that has other tables, because the address
// may name the wrong database.
func (h *history) create(ctx context.Context) error {
	var occupied bool
	err := h.conn.QueryRow(ctx, `
		select exists (
			select from pg_class c
			where c.relnamespace = $1::text::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
			and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e'))`,
		pgx.Identifier{h.schema}.Sanitize()).Scan(&occupied)
	if err != nil {
		return fmt.Errorf("look into schema %q: %w", h.schema, err)
	}
	if occupied {
		return refusal(fmt.Sprintf("Found non-empty schema %q but no schema history table %s. Is this the right database? "+
			"A new one must be empty; a backup is restored whole, with its history.", h.schema, h.table))
	}
	_, err = h.conn.Exec(ctx, `
		create table `+h.table+` (
			version     integer primary key,
			description text not null,
			checksum    integer not null,
			applied_at  timestamptz not null default now(),
			duration_ms bigint not null,
			success     boolean not null
		)`)
	return fault.Wrap(err, "create %s", h.table)
}

func (h *history) insert(ctx context.Context, f file, took time.Duration, success bool) error {
	_, err := h.conn.Exec(ctx, `
		insert into `+h.table+` (version, description, checksum, duration_ms, success)
		values ($1, $2, $3, $4, $5)`,
		f.version, f.description, f.checksum, took.Milliseconds(), success)
	return fault.Wrap(err, "record %s", f.name)
}

// succeed marks the failed row of f as successful.
func (h *history) succeed(ctx context.Context, f file, took time.Duration) error {
	_, err := h.conn.Exec(ctx, `
		update `+h.table+` set success = true, duration_ms = $2, applied_at = now() where version = $1`,
		f.version, took.Milliseconds())
	return fault.Wrap(err, "record %s", f.name)
}

// restoreSearchPath undoes changes of the session's search path by a migration.
func (h *history) restoreSearchPath(ctx context.Context) error {
	_, err := h.conn.Exec(ctx, `select set_config('search_path', $1, false)`, h.searchPath)
	return fault.Wrap(err, "restore search path")
}
