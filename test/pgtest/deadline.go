package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// RequireDeadlines makes t fail if a query of the pool has no deadline: if the database's machine
// vanishes, such a query waits for minutes.
func RequireDeadlines(t testing.TB, c *pgxpool.Config) { c.ConnConfig.Tracer = deadlineTracer{t} }

type deadlineTracer struct{ t testing.TB }

func (d deadlineTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if _, ok := ctx.Deadline(); !ok {
		d.t.Errorf("a query without deadline: %s", q.SQL)
	}
	return ctx
}

func (deadlineTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
