package pgtest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// disconnectOthers ends what a test has left connected, which would keep the
// tables locked.
func disconnectOthers(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `
		select pg_terminate_backend(pid, 5000) from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`)
	return err
}

// shape is a digest of the tables, columns, triggers and functions. A clone
// has the object numbers of its template, so equal means unaltered.
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

// holdsRows tells whether the migrations have filled a table: a clone that is
// merely emptied would then lack those rows.
func holdsRows(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var rows bool
	err := conn.QueryRow(ctx, `
		select coalesce(bool_or(pg_relation_size(oid) > 0), false) from pg_class
		where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> 'schema_history'`).Scan(&rows)
	return rows, err
}

// truncate empties all tables that have had a row, but the migrations' own, and sets the
// sequences back. A table that never had any has no page: to truncate all would make
// hundreds of files anew after each test. A trigger that guards a table against that is
// out of the way for this session, where the user may do so.
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
