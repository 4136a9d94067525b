package projections_test

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// An explainer remembers what was asked of the database.
type explainer struct{ asked []pgx.TraceQueryStartData }

func (e *explainer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	e.asked = append(e.asked, q)
	return ctx
}

func (e *explainer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (e *explainer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	for _, q := range d.Batch.QueuedQueries {
		e.asked = append(e.asked, pgx.TraceQueryStartData{SQL: q.SQL, Args: q.Arguments})
	}
	return ctx
}

func (*explainer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*explainer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
