package migrations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// cleanupLimit limits cleaning up after a run has failed or was cancelled.
const cleanupLimit = 5 * time.Second

// A statement that waits for a table's lock makes all later queries of the table wait behind it, so
// a migration gives up and lets them pass for tableLockPause, then twice as long each time. It gives up
// tableLockPatience after deadlock_timeout, because PostgreSQL cancels an autovacuum that blocks it only
// when that has passed, and before commits give up, which wait for two seconds.
const (
	tableLockPatience = 200 * time.Millisecond
	tableLockPause    = 2 * time.Second
	maxTableLockPause = time.Minute
)

// apply runs f and records it.
func (h *history) apply(ctx context.Context, f file, out io.Writer) error {
	run := h.applyInTransaction
	if f.outsideTransaction() {
		run = h.applyOutsideTransaction
	}
	reported := ""
	err := run(ctx, f)
	for pause := tableLockPause; isLockTimeout(err) && !f.outsideTransaction(); err = run(ctx, f) {
		if who := h.oldestHolder(ctx); who != reported {
			fmt.Fprintf(out, "Migration %s was rolled back and is tried again: it waits for a lock, perhaps of %s ...\n", f.name, who)
			reported = who
		}
		select {
		case <-ctx.Done():
			return f.failure(ctx.Err())
		case <-time.After(pause):
			pause = min(2*pause, maxTableLockPause)
		}
	}
	if err != nil {
		return f.failure(err)
	}
	return h.restoreSearchPath(ctx)
}

// isLockTimeout reports whether err says that a lock was not granted in time.
func isLockTimeout(err error) bool {
	pg, is := errors.AsType[*pgconn.PgError](err)
	return is && pg.Code == "55P03"
}

// oldestHolder describes the session with the oldest transaction of those that hold locks of tables.
func (h *history) oldestHolder(ctx context.Context) string {
	var who string
	err := h.conn.QueryRow(ctx, `
		select coalesce(nullif(a.application_name, ''), a.backend_type, 'a session') || ' (backend pid ' || a.pid || ')'
		from pg_locks l join pg_stat_activity a using (pid)
		where l.locktype = 'relation' and l.granted and l.relation >= 16384 and a.pid <> pg_backend_pid()
			and l.database = (select oid from pg_database where datname = current_database())
		order by a.xact_start limit 1`).Scan(&who)
	if err != nil {
		return "a session that has just ended"
	}
	return who
}

func (h *history) applyInTransaction(ctx context.Context, f file) error {
	tx, err := h.conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		_ = tx.Rollback(ctx) // does nothing once committed
	}()
	_, err = tx.Exec(ctx, `
		select set_config('lock_timeout', (setting::bigint + $1)::text, true) from pg_settings where name = 'deadlock_timeout'`,
		tableLockPatience.Milliseconds())
	if err != nil {
		return fmt.Errorf("limit waits for locks: %w", err)
	}
	start := time.Now()
	// The simple protocol takes a file of many statements as it is.
	if err := h.conn.PgConn().Exec(ctx, f.sql).Close(); err != nil {
		return err
	}
	if h.conn.PgConn().TxStatus() != 'T' {
		return errors.New("the file ends its own transaction; it must hold no commit or rollback")
	}
	if err := h.insert(ctx, f, time.Since(start), true); err != nil {
		return err
	}
	return tx.Commit(ctx) // deferred constraints fail here
}

// applyOutsideTransaction runs the single statement of f outside a transaction. It first
// inserts the row, as failed, so that the row remains even if the run is killed.
//
// Waits for locks have no limit. Nobody waits behind a concurrent statement that waits for a table or for
// earlier transactions, and a limit would throw away the index that was built, again with each attempt.
func (h *history) applyOutsideTransaction(ctx context.Context, f file) error {
	if err := h.insert(ctx, f, 0, false); err != nil {
		return err
	}
	start := time.Now()
	// The extended protocol refuses more than one statement; the simple one
	// would put them into a transaction after all.
	if err := h.conn.PgConn().ExecParams(ctx, f.sql, nil, nil, nil, nil).Read().Err; err != nil {
		return err
	}
	return h.succeed(ctx, f, time.Since(start))
}

// reportNote returns the report's note about a file that runs outside a transaction.
func (f file) reportNote() string {
	if f.outsideTransaction() {
		return " [non-transactional]"
	}
	return ""
}

// failure returns an error that says in Flyway's format where f failed. It leaves out
// PostgreSQL's detail, which quotes rows.
func (f file) failure(err error) error {
	title := fmt.Sprintf("Migration %s failed", f.name)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", title, strings.Repeat("-", len(title)))
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		fmt.Fprintf(&b, "SQL State  : %s\nMessage    : %s\n", pg.Code, pg.Message)
		if pg.Hint != "" {
			fmt.Fprintf(&b, "Hint       : %s\n", pg.Hint)
		}
		if line := f.line(int(pg.Position)); line > 0 {
			fmt.Fprintf(&b, "Line       : %d\n", line)
		}
	} else {
		fmt.Fprintf(&b, "Message    : %v\n", err)
	}
	if f.outsideTransaction() {
		b.WriteString("It ran outside a transaction: look at what it left before the next run.")
	} else {
		b.WriteString("It was rolled back: the next run starts with it again.")
	}
	return &failure{text: b.String(), err: err}
}

// A failure is the error of a migration that failed.
type failure struct {
	text string
	err  error
}

func (e *failure) Error() string { return e.text }
func (e *failure) Unwrap() error { return e.err }

// line returns the line, from 1, of the character at position, from 1, or 0 if PostgreSQL
// gave no position.
func (f file) line(position int) int {
	runes := []rune(f.sql)
	if position < 1 || position > len(runes) {
		return 0
	}
	return 1 + strings.Count(string(runes[:position-1]), "\n")
}
