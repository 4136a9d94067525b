package main

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/projections"
	"svc/projections/fold"
	"svc/proof"
)

// viewsTimeout is how long a start waits for the views.
const viewsTimeout = 30 * time.Second

// awaitViews waits until every followed view has processed all logs and each has a signed
// checkpoint, so that the first answers are complete. After limit it gives up with a warning, so
// that a stuck view does not prevent the start.
func (s *stack) awaitViews(ctx context.Context, db string, limit time.Duration) error {
	return s.query(ctx, db, func(ctx context.Context, c *pgx.Conn) error {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for said, late := false, time.After(limit); ; {
			behind, err := viewsBehind(ctx, c)
			if err != nil || len(behind) == 0 {
				return err
			}
			if !said {
				s.say("waiting for the views, and for the first checkpoints")
				said = true
			}
			select {
			case <-again.C:
			case <-late:
				s.log.Warn("views are behind the log", "views", strings.Join(behind, ", "))
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

func viewsBehind(ctx context.Context, c *pgx.Conn) (names []string, err error) {
	list := []string{proof.FollowerName}
	for _, v := range projections.Followed() {
		list = append(list, v.Name())
	}
	lags, err := fold.Lags(ctx, c, list...)
	for _, l := range lags {
		if l.Behind > 0 {
			names = append(names, l.View)
		}
	}
	return names, err
}
