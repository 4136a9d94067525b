package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/bus"
	"svc/projections"
	"svc/proof"
)

var errBehind = errors.New("views, Merkle logs or the bus do not catch up")

// followers are what has a position in each log: views, the Merkle log and the bus.
func followers() (names []string) {
	for _, v := range projections.Followed() {
		names = append(names, v.Name())
	}
	return append(names, proof.View, bus.View)
}

// catchUpLimit is how long what follows may take to catch up.
const catchUpLimit = 15 * time.Minute

// caughtUp returns when all that follows the logs is where they end. Nothing is ahead of
// a log, so sums tell: to compare each checkpoint costs more than what is measured.
func caughtUp(ctx context.Context, db *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, catchUpLimit, errBehind)
	defer cancel()
	for {
		var behind bool
		asked := time.Now()
		err := db.QueryRow(ctx, `
			select (select coalesce(sum(head), 0) from logs) * cardinality($1::text[]) >
				(select coalesce(sum(seq), 0) from checkpoints where view = any($1))`, followers()).Scan(&behind)
		if err != nil || !behind {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(max(20*time.Millisecond, 9*time.Since(asked))): // a tenth of the time at most
		}
	}
}

const (
	growing   = 1000 // logs that grow by an event at a time
	eachSpeed = 2000 // events a second
)

// eventCost compares the processor time of an event, until all that follows from it
// is done, with that of a plain insert at the same pace.
func eventCost(ctx context.Context, s *site) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	hints, closeLog, err := newHinting(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer closeLog()
	w, err := newWriters(ctx, db, hints.log, connections, newIDs(growing))
	if err != nil {
		return result{}, err
	}
	if err := w.queueRuns(ctx); err != nil {
		return result{}, err
	}
	server, err := s.rest(ctx, db.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	r, err := compare(ctx,
		func() (float64, error) {
			n, err := paced(ctx, w.grow)
			if err == nil {
				err = caughtUp(ctx, db)
			}
			return n, err
		},
		func() (float64, error) { return paced(ctx, w.insert) })
	r.Ratios = r.Each
	return r, err
}

// queueRuns begins a run in each log, whose only stream it is to be.
func (w *writers) queueRuns(ctx context.Context) error {
	for i, workspace := range w.workspaces {
		s := &stream{id: events.NewID(time.Now()), version: 1}
		w.streams[i%len(w.streams)][workspace] = s
		_, err := w.log.Append(ctx, &events.Commit{Workspace: workspace, Envelope: envelope(s.id), At: time.Now(), Writes: []events.Write{{
			Stream: s.id, Events: []events.Event{events.RunQueued{Repo: events.Repo{ID: s.id, Name: "acme/web"}, IssueNumber: 7,
				IssueTitle: "Fix date parsing"}},
		}}})
		if err != nil {
			return err
		}
	}
	return nil
}

// grow appends an event to the next of the worker's logs.
func (w *writers) grow(ctx context.Context, worker int) error {
	w.next[worker] = (w.next[worker] + len(w.streams)) % len(w.workspaces)
	i := w.next[worker]/len(w.streams)*len(w.streams) + worker
	if i >= len(w.workspaces) {
		i = worker
	}
	workspace := w.workspaces[i]
	s := w.streams[worker][workspace]
	_, err := w.log.Append(ctx, &events.Commit{
		Workspace: workspace, Envelope: envelope(s.id), At: time.Now(),
		Writes: []events.Write{{Stream: s.id, Version: s.version, Events: []events.Event{fact}}},
	})
	s.version++
	return err
}

// paced does something for a turn, so often a second as the pace says, or as often as
// it can be done. It returns how often a second that was.
func paced(ctx context.Context, do func(context.Context, int) error) (float64, error) {
	var next atomic.Int64
	from := time.Now()
	return measure(ctx, connections, func(ctx context.Context, worker int) error {
		due := from.Add(time.Duration(next.Add(1)) * time.Second / eachSpeed)
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		return do(ctx, worker)
	})
}

// tables returns all that the database keeps, with how many bytes each takes on disk
// together with its indexes.
func tables(ctx context.Context, db *pgxpool.Pool) (map[string]int64, error) {
	sizes := map[string]int64{}
	var name string
	var bytes int64
	rows, _ := db.Query(ctx, `
		select relname, pg_total_relation_size(oid) from pg_class
		where relkind = 'r' and relnamespace = 'public'::regnamespace and relname not like 'flyway%'`)
	_, err := pgx.ForEachRow(rows, []any{&name, &bytes}, func() error { sizes[name] = bytes; return nil })
	return sizes, err
}

// usualMeta has events say who caused them as one by a person over HTTP does.
const usualMeta = `
	update events set meta = json_build_object('actor', json_build_object('type', 'user', 'id', workspace_id, 'name', 'zoe@acme.example'),
		'origin', 'api', 'ip', '203.0.113.7',
		'userAgent', 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'requestId', id)`

// eventBytes compares what an event and all that follows from it take on disk with the
// event's own row. Messages of the bus are told beside that: they are removed a minute
// after everybody has taken them in.
func eventBytes(ctx context.Context, s *site) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	n := scaled(100_000)
	if _, err := fillLogs(ctx, db, 10, n/10); err != nil {
		return result{}, err
	}
	if _, err := db.Exec(ctx, usualMeta); err != nil {
		return result{}, err
	}
	if _, err := follows(ctx, s, db, n); err != nil {
		return result{}, err
	}
	if _, err := db.Exec(ctx, `vacuum full`); err != nil { // so that a row which was changed again and again counts once
		return result{}, err
	}
	sizes, err := tables(ctx, db)
	if err != nil {
		return result{}, err
	}
	r, all := result{Note: map[string]any{}}, int64(0)
	for name, bytes := range sizes {
		if name != "bus_messages" {
			all += bytes
		}
		if each := float64(bytes) / float64(n); each >= 1 {
			r.Note[name] = int(each + 0.5)
		}
	}
	var stored float64
	err = db.QueryRow(ctx, `select avg(pg_column_size(e.*)) from events e`).Scan(&stored)
	r.Ratios = []float64{float64(all) / float64(n) / stored}
	r.Note["all"], r.Note["stored"] = all/int64(n), int(stored)
	return r, err
}
