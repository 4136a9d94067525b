package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/projections"
	"svc/projections/fold"
)

// errDiffer says that rows differ from the log; the report lists them.
var errDiffer = errors.New("some rows differ from the log")

// compareViews compares the views and unique keys of workspaces with their logs and reports
// differing rows. Unless one workspace was selected, it also looks for rows of workspaces without a
// log.
func (inv invocation) compareViews(ctx context.Context, db *pgxpool.Pool, list []events.ID) error {
	if inv.workspace.IsZero() {
		strays, err := fold.OrphanedWorkspaces(ctx, db, projections.All(), fold.NoPause)
		if err != nil {
			return err
		}
		list = slices.Concat(list, strays)
	}
	bad := 0
	for _, workspace := range list {
		start := time.Now()
		done, err := fold.Compare(ctx, db, projections.All(), workspace, fold.NoPause)
		if err != nil {
			return err
		}
		for _, d := range done.Differences {
			fmt.Fprintf(inv.out, "%s: DIFFERENT: %s\n", workspace, d)
		}
		if done.More > 0 {
			fmt.Fprintf(inv.out, "%s: DIFFERENT: %d further rows\n", workspace, done.More)
		}
		for _, why := range done.Skipped {
			fmt.Fprintf(inv.out, "%s: NOT COMPARED: %s\n", workspace, why)
		}
		if len(done.Differences)+len(done.Skipped) > 0 {
			bad++
			continue
		}
		fmt.Fprintf(inv.out, "%s: %d rows match the log up to event %d, compared in %s\n",
			workspace, done.Rows, done.Events, time.Since(start).Round(time.Millisecond))
	}
	if bad > 0 {
		return fmt.Errorf("%w: %d of %d workspaces", errDiffer, bad, len(list))
	}
	return nil
}
