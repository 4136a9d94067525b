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

func appendSpread(ctx context.Context, s *site) (result, error) { return appending(ctx, s, 32, 1000) }
func appendWide(ctx context.Context, s *site) (result, error)   { return appending(ctx, s, 256, 1000) }
func appendHot(ctx context.Context, s *site) (result, error)    { return appending(ctx, s, 256, 1) }

// appending compares commands through the store with plain inserts of the same
// rows into a table with the same keys.
func appending(ctx context.Context, s *site, workers, workspaces int) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	log := newLog(db)
	defer log.Close()
	w, err := newWriters(ctx, db, log, workers, newIDs(workspaces))
	if err != nil {
		return result{}, err
	}
	return compare(ctx,
		func() (float64, error) { return measure(ctx, workers, w.command) },
		func() (float64, error) { return measure(ctx, workers, w.insert) })
}

// appendGrowth compares commands in logs that have just begun with commands in
// logs of ten thousand events.
func appendGrowth(ctx context.Context, s *site) (result, error) {
	const workers, logs = 32, 1000
	turnOf := func(events int) (turn func() (float64, error), end func(), err error) {
		db, err := s.database(ctx)
		if err != nil {
			return nil, nil, err
		}
		workspaces, err := fillLogs(ctx, db, logs, events/logs)
		if err != nil {
			db.Close()
			return nil, nil, err
		}
		log := newLog(db)
		end = func() { log.Close(); db.Close() }
		w, err := newWriters(ctx, db, log, workers, workspaces)
		return func() (float64, error) { return measure(ctx, workers, w.command) }, end, err
	}
	few, end, err := turnOf(10 * logs)
	if err != nil {
		return result{}, err
	}
	defer end()
	from := time.Now()
	many, end, err := turnOf(scaled(10_000_000))
	if err != nil {
		return result{}, err
	}
	defer end()
	filled := time.Since(from)
	r, err := compare(ctx, few, many) // how much faster few are, which is how much longer many take
	if err == nil {
		r.Note["fill"] = filled.Round(time.Second).String()
	}
	return r, err
}

// appendPeer compares commands with messages that Watermill's own publisher
// puts into a table of its own making, one in a transaction.
func appendPeer(ctx context.Context, s *site) (result, error) {
	const workers = 32
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	log := newLog(db)
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
		func() (float64, error) { return measure(ctx, workers, w.command) },
		func() (float64, error) {
			return measure(ctx, workers, func(ctx context.Context, worker int) error {
				m, err := w.message(worker)
				if err != nil {
					return err
				}
				m.SetContext(ctx)
				return publisher.Publish("events", m)
			})
		})
}

// message is what a command appends, for a bus.
func (w *writers) message(worker int) (*message.Message, error) {
	id := events.NewID(time.Now())
	meta, err := json.Marshal(envelope(id))
	if err != nil {
		return nil, err
	}
	data, err := events.Encode(fact)
	if err != nil {
		return nil, err
	}
	m := message.NewMessage(id.String(), data)
	m.Metadata = message.Metadata{"workspace": w.workspace(worker).String(), "stream": id.String(), "kind": fact.Kind(),
		"envelope": string(meta)}
	return m, nil
}

// writers append to streams of their own, in workspaces that they share.
type writers struct {
	db         *pgxpool.Pool
	log        *store.Store
	workspaces []events.ID
	streams    []map[events.ID]*stream // by worker and workspace
	next       []int                   // workspace, by worker
	plain      []int64                 // number of the next plain row, by worker
}

type stream struct {
	id      events.ID
	version int
}

func newWriters(ctx context.Context, db *pgxpool.Pool, log *store.Store, workers int, workspaces []events.ID) (*writers, error) {
	_, err := db.Exec(ctx, `create table plain (like events including all)`)
	w := &writers{db: db, log: log, workspaces: workspaces, streams: make([]map[events.ID]*stream, workers), next: make([]int, workers),
		plain: make([]int64, workers)}
	for i := range workers {
		w.streams[i] = map[events.ID]*stream{}
		w.next[i] = i * 7919 // so that they do not go in step
	}
	return w, err
}

func newIDs(n int) (list []events.ID) {
	for range n {
		list = append(list, events.NewID(time.Now()))
	}
	return list
}

// nothing is told of what was appended.
func nothing(events.ID, int64) {}

func (w *writers) workspace(worker int) events.ID {
	w.next[worker]++
	return w.workspaces[w.next[worker]%len(w.workspaces)]
}

// fact is what all of them append.
var fact = events.RunCostRecorded{Cents: 12, Source: "model", Quantity: 1}

// command appends one event to a stream at its version.
func (w *writers) command(ctx context.Context, worker int) error {
	workspace := w.workspace(worker)
	s := w.streams[worker][workspace]
	if s == nil {
		s = &stream{id: events.NewID(time.Now())}
		w.streams[worker][workspace] = s
	}
	_, err := w.log.Append(ctx, &events.Commit{
		Workspace: workspace, Envelope: envelope(s.id), At: time.Now(),
		Writes: []events.Write{{Stream: s.id, Version: s.version, Events: []events.Event{fact}}},
	})
	s.version++
	return err
}

func envelope(id events.ID) events.Envelope {
	return events.Envelope{
		Actor: events.Actor{Type: events.ByUser, ID: id, Name: "zoe@acme.example"}, Origin: events.FromAPI,
		IP: "203.0.113.7", UserAgent: "curl/8.14.1", RequestID: id.String(),
	}
}

// insert adds one row like those of events.
func (w *writers) insert(ctx context.Context, worker int) error {
	at := time.Now()
	id := events.NewID(at)
	meta, err := json.Marshal(envelope(id))
	if err != nil {
		return err
	}
	data, err := events.Encode(fact)
	if err != nil {
		return err
	}
	w.plain[worker]++
	_, err = w.db.Exec(ctx, `
		insert into plain (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		values ($1, $2, $3, $3, 1, $4, $5, $6, $7, $8)`,
		w.workspace(worker), w.plain[worker]*1000+int64(worker), id, fact.Kind(), events.Schema(fact.Kind()), at, meta, data)
	return err
}

// newLog is a log as the service has it: its events are authenticated.
func newLog(db *pgxpool.Pool) *store.Store {
	log := store.New(db, projections.Inline(), nothing)
	ring, err := vault.NewRing([]config.Secret{secret}) // of the service, which would not sign for others
	if err != nil {
		panic(err) // it is ours
	}
	log.Authenticate(ring)
	return log
}
