package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
	"svc/projections"
)

// hinting appends as a process does that follows nothing itself.
type hinting struct {
	db        *pgxpool.Pool
	log       *store.Store
	workspace events.ID
}

func newHinting(ctx context.Context, db *pgxpool.Pool) (*hinting, func(), error) {
	quiet := slog.New(slog.DiscardHandler)
	hints := store.NewHints(db, db.Config().ConnConfig, quiet, func(events.ID) {})
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { hints.Run(ctx) })
	w := &hinting{db: db, log: store.New(db, projections.Inline(), hints.Moved), workspace: events.NewID(time.Now())}
	return w, func() {
		w.log.Close()
		stop()
		running.Wait()
	}, nil
}

// once appends an event and returns after how many milliseconds it was taken in.
func (w *hinting) once(ctx context.Context) (float64, error) {
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

func percentile(list []float64, p float64) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[min(len(list)-1, int(p*float64(len(list))))]
}
