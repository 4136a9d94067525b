package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/bus"
	"svc/projections"
	"svc/projections/fold"
	"svc/projections/rebuild"
	"svc/proof"
)

// withViews is withDatabase for commands that need the log of the selected workspace, if one is selected.
func (inv invocation) withViews(ctx context.Context, do func(*pgxpool.Pool) error) error {
	return inv.withDatabase(ctx, func(db *pgxpool.Pool) error {
		if !inv.workspace.IsZero() {
			head, _, err := projections.History{DB: db}.Head(ctx, inv.workspace)
			switch {
			case err != nil:
				return err
			case head == 0:
				return fmt.Errorf("there is no workspace %s", inv.workspace)
			}
		}
		return do(db)
	})
}

// views prints the status of every view, of the prover and of the bus. It reads twice, a second
// apart, to compute rates.
func views(ctx context.Context, inv invocation) error {
	return inv.withViews(ctx, func(db *pgxpool.Pool) error {
		before, err := fold.Survey(ctx, db, projections.All(), proof.FollowerName, bus.FollowerName)
		if err != nil {
			return err
		}
		from := time.Now()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		now, err := fold.Survey(ctx, db, projections.All(), proof.FollowerName, bus.FollowerName)
		if err != nil {
			return err
		}
		took := time.Since(from).Seconds()
		w := tabwriter.NewWriter(inv.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "VIEW\tKEPT\tEVENTS BEHIND\tLOGS BEHIND\tEVENTS/S\tPARKED\tFORM\tREBUILT")
		for i, s := range now {
			kept, lag, logs, rate := "inline", "-", "-", "-"
			if s.Followed {
				kept, lag, logs = "followed", strconv.FormatInt(s.Lag, 10), strconv.Itoa(s.Behind)
				rate = fmt.Sprintf("%.0f", float64(s.Position-before[i].Position)/took)
			}
			parked, form, rebuilt := "-", "-", "-"
			if s.Wanted != 0 {
				parked, form, rebuilt = strconv.Itoa(s.Parked), formOf(s), rebuiltAt(s)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, kept, lag, logs, rate, parked, form, rebuilt)
		}
		return w.Flush()
	})
}

func formOf(s fold.Status) string {
	if s.Form == s.Wanted {
		return strconv.Itoa(s.Form)
	}
	return fmt.Sprintf("%d, rebuild it to %d", s.Form, s.Wanted)
}

func rebuiltAt(s fold.Status) string {
	if s.RebuiltAt == nil {
		return "never"
	}
	return s.RebuiltAt.UTC().Format(time.RFC3339)
}

// parked lists the parked events.
func parked(ctx context.Context, inv invocation) error {
	return inv.withViews(ctx, func(db *pgxpool.Pool) error {
		list, err := fold.ListParked(ctx, db)
		if err != nil {
			return err
		}
		for _, p := range list {
			fmt.Fprintf(inv.out, "%s %s %d %s: %s (%s)\n", p.View, p.Workspace, p.Seq, p.Kind, p.Error, p.At.UTC().Format(time.RFC3339))
		}
		fmt.Fprintf(inv.out, "%d parked\n", len(list))
		return nil
	})
}

// retry rebuilds the logs with parked events, in the views inv.views or in all. Events that still
// cannot be folded are parked again.
func retry(ctx context.Context, inv invocation) error {
	list, err := viewsByName(inv.views)
	if err != nil {
		return err
	}
	return inv.withViews(ctx, func(db *pgxpool.Pool) error {
		found, err := fold.ListParked(ctx, db)
		if err != nil {
			return err
		}
		for _, v := range list {
			tried := map[events.ID]bool{}
			for _, p := range found {
				if p.View == v.Name() && !tried[p.Workspace] && (inv.workspace.IsZero() || inv.workspace == p.Workspace) {
					tried[p.Workspace] = true
					if err := inv.rebuildLogs(ctx, db, []fold.View{v}, p.Workspace, func(rebuild.Result) {}); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// skip deletes a parked event of a view. A rebuild may park it again.
func skip(ctx context.Context, inv invocation) error {
	list, err := viewsByName(inv.views)
	if err != nil {
		return err
	}
	return inv.withViews(ctx, func(db *pgxpool.Pool) error {
		there, err := fold.SkipParked(ctx, db, list[0].Name(), inv.workspace, inv.seq)
		switch {
		case err != nil:
			return err
		case !there:
			return fmt.Errorf("%s has no parked event %d of %s", list[0].Name(), inv.seq, inv.workspace)
		}
		fmt.Fprintf(inv.out, "%s %s %d is skipped\n", list[0].Name(), inv.workspace, inv.seq)
		return nil
	})
}
