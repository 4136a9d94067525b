package main

import (
	"context"
	"encoding/json"
	"time"

	sqlbus "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/vault"
)

func appendSpread(ctx context.Context, s *suite) (result, error) {
	return compareAppends(ctx, s, 32, 1000)
}
func appendWide(ctx context.Context, s *suite) (result, error) {
	return compareAppends(ctx, s, 256, 1000)
}
func appendHot(ctx context.Context, s *suite) (result, error) { return compareAppends(ctx, s, 256, 1) }

// compareAppends compares appends through the store with plain inserts of the same rows
// into a table with the same keys.
func compareAppends(ctx context.Context, s *suite, workers, workspaces int) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	log := newLog(db, notifyNobody)
	defer log.Close()
	w, err := newWriters(ctx, db, log, workers, newIDs(workspaces))
	if err != nil {
		return result{}, err
	}
	return compare(ctx,
		func() (work, error) { return measure(ctx, workers, w.appendEvent) },
		func() (work, error) { return measure(ctx, workers, w.insertRow) })
}

// appendGrowth compares appends to logs of ten events with appends to logs of ten thousand.
func appendGrowth(ctx context.Context, s *suite) (result, error) {
	const workers, logs = 32, 1000
	newTurn := func(events int) (turn turnFunc, end func(), err error) {
		db, err := s.database(ctx)
		if err != nil {
			return nil, nil, err
		}
		workspaces, err := fillLogs(ctx, db, logs, events/logs)
		if err != nil {
			db.Close()
			return nil, nil, err
		}
		log := newLog(db, notifyNobody)
		end = func() { log.Close(); db.Close() }
		w, err := newWriters(ctx, db, log, workers, workspaces)
		return func() (work, error) { return measure(ctx, workers, w.appendEvent) }, end, err
	}
	short, end, err := newTurn(10 * logs)
	if err != nil {
		return result{}, err
	}
	defer end()
	from := time.Now()
	long, end, err := newTurn(scaled(10_000_000))
	if err != nil {
		return result{}, err
	}
	defer end()
	filled := time.Since(from)
	r, err := compare(ctx, short, long)
	if err == nil {
		r.Note["fill"] = filled.Round(time.Second).String()
	}
	return r, err
}

// appendPeer compares appends with Watermill's SQL publisher, which writes to a table that
// it creates itself, one message in a transaction.
func appendPeer(ctx context.Context, s *suite) (result, error) {
	const workers = 32
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	log := newLog(db, notifyNobody)
	defer log.Close()
	w, err := newWriters(ctx, db, log, workers, newIDs(1000))
	if err != nil {
		return result{}, err
	}
	publisher, err := sqlbus.NewPublisher(sqlbus.BeginnerFromPgx(db),
		sqlbus.PublisherConfig{SchemaAdapter: sqlbus.DefaultPostgreSQLSchema{}, AutoInitializeSchema: true}, nil)
	if err != nil {
		return result{}, err
	}
	return compare(ctx,
		func() (work, error) { return measure(ctx, workers, w.appendEvent) },
		func() (work, error) {
			return measure(ctx, workers, func(ctx context.Context, worker int) error {
				m, err := w.busMessage(worker)
				if err != nil {
					return err
				}
				m.SetContext(ctx)
				return publisher.Publish("events", m)
			})
		})
}

// busMessage returns a Watermill message with the content of the next append.
func (w *writers) busMessage(worker int) (*message.Message, error) {
	id := events.NewID(time.Now())
	meta, err := json.Marshal(envelope(id))
	if err != nil {
		return nil, err
	}
	data, err := events.Encode(sampleEvent)
	if err != nil {
		return nil, err
	}
	m := message.NewMessage(id.String(), data)
	m.Metadata = message.Metadata{"workspace": w.nextWorkspace(worker).String(), "stream": id.String(), "kind": sampleEvent.Kind(),
		"envelope": string(meta)}
	return m, nil
}

// writers is a number of workers. Each has its own streams, in workspaces that all of them share.
type writers struct {
	db          *pgxpool.Pool
	log         *store.Store
	workspaces  []events.ID
	streams     []map[events.ID]*stream // of each worker, by workspace
	nextIndexes []int                   // into workspaces, of each worker
	plainSeqs   []int64                 // rows that each worker has inserted into the table plain
}

// A stream is a stream that one worker appends to, at its next version.
type stream struct {
	id      events.ID
	version int
}

// newWriters creates the table plain and returns writers of the given number of workers.
func newWriters(ctx context.Context, db *pgxpool.Pool, log *store.Store, workers int, workspaces []events.ID) (*writers, error) {
	_, err := db.Exec(ctx, `create table plain (like events including all)`)
	w := &writers{db: db, log: log, workspaces: workspaces, streams: make([]map[events.ID]*stream, workers), nextIndexes: make([]int, workers),
		plainSeqs: make([]int64, workers)}
	for i := range workers {
		w.streams[i] = map[events.ID]*stream{}
		w.nextIndexes[i] = i * 7919 // workers start in different workspaces
	}
	return w, err
}

func newIDs(n int) (list []events.ID) {
	for range n {
		list = append(list, events.NewID(time.Now()))
	}
	return list
}

// notifyNobody ignores that events were appended.
func notifyNobody(events.ID, int64) {}

// nextWorkspace returns the workspace that comes next in the worker's round.
func (w *writers) nextWorkspace(worker int) events.ID {
	w.nextIndexes[worker]++
	return w.workspaces[w.nextIndexes[worker]%len(w.workspaces)]
}

// sampleEvent is the event that is appended.
var sampleEvent = events.RunCostRecorded{Cents: 12, Source: "model", Quantity: 1}

// appendEvent appends one event to a stream of the worker in its next workspace.
func (w *writers) appendEvent(ctx context.Context, worker int) error {
	workspace := w.nextWorkspace(worker)
	s := w.streams[worker][workspace]
	if s == nil {
		s = &stream{id: events.NewID(time.Now())}
		w.streams[worker][workspace] = s
	}
	_, err := w.log.Append(ctx, &events.Commit{
		Workspace: workspace, Envelope: envelope(s.id), At: time.Now(),
		Writes: []events.Write{{Stream: s.id, Version: s.version, Events: []events.Event{sampleEvent}}},
	})
	s.version++
	return err
}

// envelope returns the metadata of a request by a person over HTTP.
func envelope(id events.ID) events.Envelope {
	return events.Envelope{
		Actor: events.Actor{Type: events.ByUser, ID: id, Name: "zoe@acme.example"}, Origin: events.FromAPI,
		IP: "203.0.113.7", UserAgent: "curl/8.14.1", RequestID: id.String(),
	}
}

// insertRow inserts one row into the table plain, with the columns of an event.
func (w *writers) insertRow(ctx context.Context, worker int) error {
	at := time.Now()
	id := events.NewID(at)
	meta, err := json.Marshal(envelope(id))
	if err != nil {
		return err
	}
	data, err := events.Encode(sampleEvent)
	if err != nil {
		return err
	}
	w.plainSeqs[worker]++
	_, err = w.db.Exec(ctx, `
		insert into plain (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		values ($1, $2, $3, $3, 1, $4, $5, $6, $7, $8)`,
		w.nextWorkspace(worker), w.plainSeqs[worker]*1000+int64(worker), id, sampleEvent.Kind(), events.Schema(sampleEvent.Kind()),
		at, meta, data)
	return err
}

// newLog returns a store as the service has it, which adds a MAC to each event. moved is called after each append.
func newLog(db *pgxpool.Pool, moved func(events.ID, int64), more ...store.View) *store.Store {
	log := store.New(db, append(projections.Inline(), more...), moved)
	ring, err := vault.NewRing([]config.Secret{secret}) // the same as the service's, or it could not verify the events
	if err != nil {
		panic(err) // secret is a valid key
	}
	log.Authenticate(ring)
	return log
}
