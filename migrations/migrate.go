package migrations

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Migrate applies all migrations of s that the database lacks, in order, and reports to
// out.
//
// It holds a session-level advisory lock, so conn must connect to PostgreSQL directly and
// not through a pooler in transaction mode. Several runs may start at once: one works, the
// others wait for up to s.LockWait and then find nothing to do.
//
// It returns an error if the history differs from the files, if an earlier migration has
// failed and was left so, if one fails now, or if another run holds the lock for too long.
// A database that is newer than the newest file is left alone, with a warning.
func (s Set) Migrate(ctx context.Context, conn *pgx.Conn, out io.Writer) error {
	files, err := s.load()
	if err != nil {
		return err
	}
	h, err := openHistory(ctx, conn)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, databaseLine(conn))
	unlock, err := s.lock(ctx, conn, out)
	if err != nil {
		return err
	}
	defer unlock()

	p, err := check(ctx, h, files, out)
	if err != nil {
		return err
	}
	return applyPending(ctx, h, p, out)
}

// check returns the plan after validating it, and creates the table if it does not exist.
func check(ctx context.Context, h *history, files []file, out io.Writer) (plan, error) {
	start := time.Now()
	rows, err := h.rows(ctx)
	if err != nil {
		return plan{}, err
	}
	p := compare(files, rows)
	if err := p.validate(h); err != nil {
		return plan{}, err
	}
	fmt.Fprintf(out, "Successfully validated %s (execution time %s)\n", count(len(p.steps)), clock(time.Since(start)))
	if !h.found {
		fmt.Fprintf(out, "Creating Schema History table %q.%q ...\n", h.schema, tableName)
		return p, h.create(ctx)
	}
	return p, nil
}

// applyPending applies the pending migrations of p.
func applyPending(ctx context.Context, h *history, p plan, out io.Writer) error {
	fmt.Fprintf(out, "Current version of schema %q: %s\n", h.schema, p.currentVersion())
	if p.newer() {
		fmt.Fprintln(out, "WARNING:", p.newerThanFiles(h))
	}
	start, files := time.Now(), p.pending()
	for _, f := range files {
		fmt.Fprintf(out, "Migrating schema %q to version \"%d - %s\"%s\n", h.schema, f.version, f.description, f.reportNote())
		if err := h.apply(ctx, f, out); err != nil {
			return err
		}
	}
	if len(files) == 0 {
		fmt.Fprintf(out, "Schema %q is up to date. No migration necessary.\n", h.schema)
		return nil
	}
	fmt.Fprintf(out, "Successfully applied %s to schema %q, now at version v%d (execution time %s)\n",
		count(len(files)), h.schema, files[len(files)-1].version, clock(time.Since(start)))
	return nil
}

// databaseLine describes where conn leads, without user and password.
func databaseLine(conn *pgx.Conn) string {
	c := conn.Config()
	u := url.URL{Scheme: "postgresql", Path: "/" + c.Database, Host: fmt.Sprintf("%s:%d", c.Host, c.Port)}
	if strings.HasPrefix(c.Host, "/") { // the directory of a socket
		u.Host, u.RawQuery = "", "host="+c.Host
	}
	version, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	return fmt.Sprintf("Database: %s (PostgreSQL %s)", u.String(), version)
}

func count(n int) string {
	if n == 1 {
		return "1 migration"
	}
	return fmt.Sprintf("%d migrations", n)
}

// clock formats d as minutes, seconds and milliseconds: 00:01.234s.
func clock(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%02d:%02d.%03ds", ms/60_000, ms/1000%60, ms%1000)
}
