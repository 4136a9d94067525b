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

// followerNames returns the names under which checkpoints are stored: followed views, Merkle log, bus.
func followerNames() (names []string) {
	for _, v := range projections.Followed() {
		names = append(names, v.Name())
	}
	return append(names, proof.FollowerName, bus.FollowerName)
}

// catchUpLimit is how long followers may take to catch up.
const catchUpLimit = 15 * time.Minute

// awaitCaughtUp waits until all followers have reached the end of all logs. It compares sums, because no checkpoint
// can be ahead of its log and comparing each one would cost more than what is measured.
func awaitCaughtUp(ctx context.Context, db *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, catchUpLimit, errBehind)
	defer cancel()
	for {
		var behind bool
		asked := time.Now()
		err := db.QueryRow(ctx, `
			select (select coalesce(sum(head), 0) from logs) * cardinality($1::text[]) >
				(select coalesce(sum(seq), 0) from checkpoints where view = any($1))`, followerNames()).Scan(&behind)
		if err != nil || !behind {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(max(20*time.Millisecond, 9*time.Since(asked))): // queries take at most a tenth of the time
		}
	}
}

const (
	costLogs = 1000 // number of logs, each of which grows one event at a time
	costPace = 2000 // events a second
)

// eventCost compares the processor time of an event, including all that followers do with it,
// with that of a plain insert at the same pace.
func eventCost(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	hints, closeLog, err := newHintingWriter(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer closeLog()
	w, err := newWriters(ctx, db, hints.log, connections, newIDs(costLogs))
	if err != nil {
		return result{}, err
	}
	if err := w.queueRuns(ctx); err != nil {
		return result{}, err
	}
	server, err := s.startRest(ctx, db.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	r, err := compare(ctx,
		func() (work, error) {
			appended, err := measurePaced(ctx, w.appendToNextLog)
			if err == nil {
				err = awaitCaughtUp(ctx, db)
			}
			return appended, err
		},
		func() (work, error) { return measurePaced(ctx, w.insertRow) })
	r.Ratios = r.CPURatios
	return r, err
}

// queueRuns queues one run in each log. The run is the only stream of its log.
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

// appendToNextLog appends an event to the next log of the worker.
func (w *writers) appendToNextLog(ctx context.Context, worker int) error {
	w.nextIndexes[worker] = (w.nextIndexes[worker] + len(w.streams)) % len(w.workspaces)
	i := w.nextIndexes[worker]/len(w.streams)*len(w.streams) + worker
	if i >= len(w.workspaces) {
		i = worker
	}
	workspace := w.workspaces[i]
	s := w.streams[worker][workspace]
	_, err := w.log.Append(ctx, &events.Commit{
		Workspace: workspace, Envelope: envelope(s.id), At: time.Now(),
		Writes: []events.Write{{Stream: s.id, Version: s.version, Events: []events.Event{sampleEvent}}},
	})
	s.version++
	return err
}

// measurePaced is like [measure], but starts at most costPace operations a second.
func measurePaced(ctx context.Context, do func(context.Context, int) error) (work, error) {
	var next atomic.Int64
	from := time.Now()
	return measure(ctx, connections, func(ctx context.Context, worker int) error {
		due := from.Add(time.Duration(next.Add(1)) * time.Second / costPace)
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		return do(ctx, worker)
	})
}

// tableSizes returns the size on disk of each table with its indexes, in bytes by name.
func tableSizes(ctx context.Context, db *pgxpool.Pool) (map[string]int64, error) {
	sizes := map[string]int64{}
	var name string
	var bytes int64
	rows, _ := db.Query(ctx, `
		select relname, pg_total_relation_size(oid) from pg_class
		where relkind = 'r' and relnamespace = 'public'::regnamespace and relname <> 'schema_history'`)
	_, err := pgx.ForEachRow(rows, []any{&name, &bytes}, func() error { sizes[name] = bytes; return nil })
	return sizes, err
}

// setUsualMeta is SQL that gives each event the metadata of a request by a person over HTTP.
const setUsualMeta = `
	update events set meta = json_build_object('actor', json_build_object('type', 'user', 'id', workspace_id, 'name', 'zoe@acme.example'),
		'origin', 'api', 'ip', '203.0.113.7',
		'userAgent', 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'requestId', id)`

// eventBytes compares the bytes on disk of an event and everything derived from it with the
// bytes of the event's own row. Bus messages are noted but not counted: they are deleted a
// minute after all consumers have handled them.
func eventBytes(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	n := scaled(100_000)
	if _, err := fillLogs(ctx, db, 10, n/10); err != nil {
		return result{}, err
	}
	if _, err := db.Exec(ctx, setUsualMeta); err != nil {
		return result{}, err
	}
	if _, err := measureCatchUp(ctx, s, db, n); err != nil {
		return result{}, err
	}
	if _, err := db.Exec(ctx, `vacuum full`); err != nil { // removes the old versions of updated rows
		return result{}, err
	}
	sizes, err := tableSizes(ctx, db)
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
