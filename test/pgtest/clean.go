package pgtest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// disconnectOthers ends the connections that a test has left open, since they may hold locks.
func disconnectOthers(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `
		select pg_terminate_backend(pid, 5000) from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`)
	return err
}

// shape returns a digest of the tables, columns, triggers, functions and constraints. It includes
// their OIDs, which a clone shares with its template, so an unaltered clone has its template's digest.
func shape(ctx context.Context, conn *pgx.Conn) (string, error) {
	var digest string
	err := conn.QueryRow(ctx, `
		select md5(string_agg(word, ' ' order by word)) from (
			select format('c%s %s %s', oid, relname, relnatts) from pg_class where oid >= 16384
			union all select format('t%s %s', oid, tgenabled) from pg_trigger where oid >= 16384
			union all select format('p%s %s', oid, md5(prosrc)) from pg_proc where oid >= 16384
			union all select format('n%s', oid) from pg_constraint where oid >= 16384
		) as words (word)`).Scan(&digest)
	if err != nil {
		return "", fmt.Errorf("read the shape: %w", err)
	}
	return digest, nil
}

// hasRows reports whether the migrations insert rows, which truncate would delete.
func hasRows(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var rows bool
	err := conn.QueryRow(ctx, `
		select coalesce(bool_or(pg_relation_size(oid) > 0), false) from pg_class
		where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> 'schema_history'`).Scan(&rows)
	return rows, err
}

// truncate empties all tables except that of the migrations, and resets the sequences. It skips tables
// without pages, because truncating a table creates new files. Triggers that forbid truncation are
// disabled for this session if the user is a superuser.
func truncate(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `
		do $$
		declare
			tables text;
		begin
			if current_setting('is_superuser')::bool then
				set session_replication_role = replica;
			end if;
			select string_agg(oid::regclass::text, ', ') into tables
			from pg_class
			where relnamespace = 'public'::regnamespace and relkind = 'r'
			and relname <> 'schema_history' and pg_relation_size(oid) > 0;
			if tables is not null then
				execute 'truncate ' || tables || ' restart identity cascade';
			end if;
			perform setval(seqrelid, seqstart, false)
			from pg_sequence join pg_class on pg_class.oid = seqrelid
			where relnamespace = 'public'::regnamespace;
		end $$`)
	return err
}
