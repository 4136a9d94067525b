package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/fold"
	"svc/projections/rebuild"
)

// rebuildViews rebuilds the views inv.views, or all of them, of one workspace or of all, while the service
// goes on. Without names it also drops snapshots, which come from the log as well. It refuses a
// database that another build migrated, because the form of views may differ. If rows differed from
// the log, it completes and then fails, since something must have changed them.
func rebuildViews(ctx context.Context, inv invocation) error {
	list, err := viewsByName(inv.views)
	if err != nil {
		return err
	}
	return inv.withViews(ctx, func(db *pgxpool.Pool) error {
		if len(inv.views) == 0 {
			if err := store.DropSnapshots(ctx, db, inv.workspace); err != nil {
				return err
			}
			fmt.Fprintln(inv.out, "snapshots: dropped; new ones are written as commands run")
		}
		var differed []string
		done := func(r rebuild.Result) {
			if len(r.Differing) > 0 {
				differed = append(differed, r.View)
			}
		}
		if inv.workspace.IsZero() {
			err = inv.rebuildAll(ctx, db, list, done)
		} else {
			err = inv.rebuildLogs(ctx, db, list, inv.workspace, done)
		}
		if err != nil {
			return err
		}
		if len(differed) > 0 {
			return fmt.Errorf("%w: %s", errRowsDiffered, strings.Join(differed, ", "))
		}
		return nil
	})
}

// errRowsDiffered says that rows differed from the log before a rebuild; the report lists them.
var errRowsDiffered = errors.New("rebuilt, but rows differed from the log")

// rebuildAll rebuilds views from all logs, which it reads once.
func (inv invocation) rebuildAll(ctx context.Context, db *pgxpool.Pool, list []fold.View, done func(rebuild.Result)) error {
	start, name := time.Now(), "rebuild"
	if len(list) == 1 {
		name = list[0].Name()
	}
	return rebuild.Views(ctx, db, list, rebuild.Options{Resume: inv.resume, Progress: inv.progress(name), Done: func(r rebuild.Result) {
		if r.Resumed > 0 {
			fmt.Fprintf(inv.out, "%s: resumed after %d events of an interrupted rebuild, whose rows were not checked\n", r.View, r.Resumed)
		}
		fmt.Fprintf(inv.out, "%s: rebuilt from %d events in %s\n", r.View, r.Resumed+r.Events, time.Since(start).Round(time.Millisecond))
		inv.printResult(r)
		done(r)
	}})
}

// rebuildLogs rebuilds views from the log of one workspace.
func (inv invocation) rebuildLogs(ctx context.Context, db *pgxpool.Pool, list []fold.View, workspace events.ID,
	done func(rebuild.Result)) error {
	for _, v := range list {
		start := time.Now()
		r, err := rebuild.Log(ctx, db, v, workspace, rebuild.Options{Progress: inv.progress(v.Name())})
		if err != nil {
			return err
		}
		fmt.Fprintf(inv.out, "%s of %s: rebuilt from %d events in %s\n", r.View, workspace, r.Events,
			time.Since(start).Round(time.Millisecond))
		inv.printResult(r)
		done(r)
	}
	return nil
}

// printResult reports the result of a rebuild.
func (inv invocation) printResult(done rebuild.Result) {
	for _, workspace := range done.Differing {
		fmt.Fprintf(inv.out, "%s of %s: its rows differed from the log\n", done.View, workspace)
	}
	for _, d := range done.Rows {
		fmt.Fprintf(inv.out, "%s: DIFFERENT: %s\n", d.Workspace, d)
	}
	if done.Parked > 0 {
		fmt.Fprintf(inv.out, "%s: %d events are parked; svc-db parked shows them\n", done.View, done.Parked)
	}
}

func viewsByName(names []string) (list []fold.View, err error) {
	all := projections.All()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, v := range all {
		known = append(known, v.Name())
		if slices.Contains(names, v.Name()) {
			list = append(list, v)
		}
	}
	if len(list) < len(slices.Compact(slices.Sorted(slices.Values(names)))) {
		return nil, errors.New("unknown view; the views are " + strings.Join(known, ", "))
	}
	return list, nil
}

// progress returns a function that shows the progress of an operation by a line per second.
func (inv invocation) progress(name string) func(done, total int64) {
	start := time.Now()
	last := start
	return func(done, total int64) {
		if time.Since(last) < time.Second {
			return
		}
		last = time.Now()
		rate := float64(done) / time.Since(start).Seconds()
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		fmt.Fprintf(inv.out, "%s: %d of %d events, %.0f a second, %s left\n", name, done, total, rate, left.Round(time.Second))
	}
}
