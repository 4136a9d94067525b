package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

// wake measures the time from an append in one process until a view in another has it.
func wake(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	server, err := s.startRest(ctx, db.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	w, closeLog, err := newHintingWriter(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer closeLog()
	var r result
	var p50 []float64
	for range *rounds {
		var took []float64
		for i := range 200 {
			ms, err := w.timeAppend(ctx)
			if err != nil {
				return r, err
			}
			if i >= 20 || len(r.Ratios) > 0 { // the service first becomes leader and warms up
				took = append(took, ms)
			}
		}
		p50 = append(p50, median(took))
		r.Ratios = append(r.Ratios, percentile(took, 0.99)/50)
	}
	r.Note = map[string]any{"p50_ms": fmt.Sprintf("%.1f", median(p50)), "p99_ms": fmt.Sprintf("%.1f", 50*median(r.Ratios))}
	return r, nil
}

// A hintingWriter appends events in a process without followers, and notifies other processes by hints.
type hintingWriter struct {
	db        *pgxpool.Pool
	log       *store.Store
	workspace events.ID
}

// newHintingWriter returns a writer in a new workspace, and a function that stops it.
func newHintingWriter(ctx context.Context, db *pgxpool.Pool) (*hintingWriter, func(), error) {
	quiet := slog.New(slog.DiscardHandler)
	hints := store.NewHints(db, db.Config().ConnConfig, quiet, func(events.ID) {})
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { hints.Run(ctx) })
	w := &hintingWriter{db: db, log: newLog(db, hints.Moved), workspace: events.NewID(time.Now())}
	return w, func() {
		w.log.Close()
		stop()
		running.Wait()
	}, nil
}

// timeAppend appends an event and returns the milliseconds until the view runs has it.
func (w *hintingWriter) timeAppend(ctx context.Context) (float64, error) {
	run := events.NewID(time.Now())
	done, err := w.log.Append(ctx, &events.Commit{Workspace: w.workspace, Envelope: envelope(run), At: time.Now(), Writes: []events.Write{{
		Stream: run, Events: []events.Event{events.RunQueued{Repo: events.Repo{ID: run, Name: "acme/web"}, IssueNumber: 7}},
	}}})
	if err != nil {
		return 0, err
	}
	from := time.Now()
	for ctx.Err() == nil {
		var at int64
		err := w.db.QueryRow(ctx, `select coalesce((select seq from checkpoints where workspace_id = $1 and view = 'runs'), 0)`,
			w.workspace).Scan(&at)
		if err != nil {
			return 0, err
		}
		if at >= done.Head {
			break
		}
	}
	return float64(time.Since(from).Microseconds()) / 1000, ctx.Err()
}

// percentile returns the value below which the fraction p of a list lies.
func percentile(list []float64, p float64) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[min(len(list)-1, int(p*float64(len(list))))]
}
