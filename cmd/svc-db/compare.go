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

var (
	// errDiffer says that rows differ from the log; the report lists them.
	errDiffer = errors.New("some rows differ from the log")
	// errBehind says that views have not processed events in time; the report lists them.
	errBehind = errors.New("some views are behind the log")
)

// compareViews compares the views and unique keys of workspaces with their logs and reports
// differing rows, and followed views that have not processed what the log had at the beginning: rows match the
// log at the position of their view, so a view without a position matches without rows. Unless one workspace was
// selected, it also looks for rows of workspaces without a log.
func (inv invocation) compareViews(ctx context.Context, db *pgxpool.Pool, list []events.ID) error {
	heads, err := fold.Heads(ctx, db)
	if err != nil {
		return err
	}
	until := time.Now().Add(fold.AwaitTimeout) // for all workspaces together
	if inv.workspace.IsZero() {
		strays, err := fold.OrphanedWorkspaces(ctx, db, projections.All(), fold.NoPause)
		if err != nil {
			return err
		}
		list = slices.Concat(list, strays)
	}
	differ, behind := 0, 0
	for _, workspace := range list {
		start := time.Now()
		if err := fold.AwaitFollowed(ctx, db, projections.All(), workspace, heads[workspace], until); err != nil {
			return err
		}
		done, err := fold.Compare(ctx, db, projections.All(), workspace, fold.NoPause)
		if err != nil {
			return err
		}
		late := slices.DeleteFunc(slices.Clone(done.Behind), func(v fold.ViewBehind) bool { return v.Seq >= heads[workspace] })
		inv.printDifferences(workspace, done, late)
		if len(late) > 0 {
			behind++
		}
		if len(done.Differences)+len(done.Skipped) > 0 {
			differ++
		} else if len(late) == 0 {
			fmt.Fprintf(inv.out, "%s: %d rows match the log up to event %d%s, compared in %s\n",
				workspace, done.Rows, done.Events, positionsOf(done.Behind), time.Since(start).Round(time.Millisecond))
		}
	}
	if differ > 0 {
		err = fmt.Errorf("%w: %d of %d workspaces", errDiffer, differ, len(list))
	}
	if behind > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d of %d workspaces", errBehind, behind, len(list)))
	}
	return err
}

func (inv invocation) printDifferences(workspace events.ID, done fold.CompareResult, late []fold.ViewBehind) {
	for _, d := range done.Differences {
		fmt.Fprintf(inv.out, "%s: DIFFERENT: %s\n", workspace, d)
	}
	if done.More > 0 {
		fmt.Fprintf(inv.out, "%s: DIFFERENT: %d further rows\n", workspace, done.More)
	}
	for _, why := range done.Skipped {
		fmt.Fprintf(inv.out, "%s: NOT COMPARED: %s\n", workspace, why)
	}
	for _, v := range late {
		fmt.Fprintf(inv.out, "%s: BEHIND: %s has processed %d of %d events\n", workspace, v.View, v.Seq, done.Events)
	}
}

// positionsOf describes views that have yet to process events which were appended meanwhile.
func positionsOf(list []fold.ViewBehind) (text string) {
	for _, v := range list {
		text += fmt.Sprintf(", %s up to %d", v.View, v.Seq)
	}
	return text
}
