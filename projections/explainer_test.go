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
