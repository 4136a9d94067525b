package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// cleanupLimit bounds what is still done once a run has failed or was
// cancelled.
const cleanupLimit = 5 * time.Second

// apply runs f and records it.
func (h *history) apply(ctx context.Context, f file) error {
	run := h.applyInTransaction
	if f.alone() {
		run = h.applyAlone
	}
	if err := run(ctx, f); err != nil {
		return f.failure(err)
	}
	return h.restoreSearchPath(ctx)
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

// applyAlone runs the one statement of f outside a transaction. The row is
// written first, as failed, so that even a killed run leaves it behind.
func (h *history) applyAlone(ctx context.Context, f file) error {
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

// note is what the report adds for a file without a transaction.
func (f file) note() string {
	if f.alone() {
		return " [non-transactional]"
	}
	return ""
}

// failure tells in Flyway's manner where f failed. PostgreSQL's detail is left
// out: it quotes the rows at fault.
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
	if f.alone() {
		b.WriteString("It ran outside a transaction: look at what it left before the next run.")
	} else {
		b.WriteString("It was rolled back: the next run starts with it again.")
	}
	return &failure{text: b.String(), err: err}
}

// A failure is the end of a run whose migration failed.
type failure struct {
	text string
	err  error
}

func (e *failure) Error() string { return e.text }
func (e *failure) Unwrap() error { return e.err }

// line returns the line, from 1, of the character at position, from 1. It is
// 0 if PostgreSQL named no position.
func (f file) line(position int) int {
	runes := []rune(f.sql)
	if position < 1 || position > len(runes) {
		return 0
	}
	return 1 + strings.Count(string(runes[:position-1]), "\n")
}
