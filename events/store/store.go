package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
)

// A View is a read model that is updated in the transaction of an append.
type View interface {
	// Load queues reading the rows that records may change. Once those have been read and
	// records are numbered, change queues writing the rows. It is nil if records change
	// none.
	Load(b *pgx.Batch, records []events.Record) (change func(b *pgx.Batch) error)
}

// A Store is the log of all workspaces. Its methods may be called concurrently.
type Store struct {
	db             *pgxpool.Pool
	views          []View
	onAppend       func(workspace events.ID, head int64)
	observe        func(Batch)
	lanes          [laneCount]chan *pending
	waiting        atomic.Int64  // commits whose callers wait
	exclusiveSlots chan struct{} // a semaphore: one value for each commit that is decided under a lock
	timeLimit      time.Duration
	snapshots      snapshots
	author         Authenticator               // nil: events are appended without a MAC
	loads          loadCheck                   // of Load
	permit         func(context.Context) error // set by Permit
	stop           context.CancelFunc
	running        sync.WaitGroup
	ended          chan struct{}
}

// New returns a store whose appends update views and then call onAppend, which must not block.
// Close ends its goroutines.
func New(db *pgxpool.Pool, views []View, onAppend func(workspace events.ID, head int64)) *Store {
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{
		db: db, views: views, onAppend: onAppend, observe: func(Batch) {}, exclusiveSlots: make(chan struct{}, maxExclusive),
		timeLimit: transactionLimit, stop: stop, permit: func(context.Context) error { return nil }, ended: make(chan struct{}),
	}
	for i := range s.lanes {
		s.lanes[i] = make(chan *pending, laneCapacity)
		s.running.Go(func() { s.runLane(ctx, s.lanes[i]) })
	}
	return s
}

// Observe makes s call f for each batch, from the goroutine that stored it: f must not
// block. Call it before the first Append.
func (s *Store) Observe(f func(Batch)) { s.observe = f }

// Close lets appends that have begun finish, refuses others, and returns when all
// goroutines of the store have ended.
func (s *Store) Close() {
	s.stop()
	s.running.Wait()
	for range maxExclusive { // wait until none is running, and let none start
		s.exclusiveSlots <- struct{}{}
	}
	close(s.ended)
}

// Load returns the records of a stream that follow version, oldest first, up to
// [events.LoadLimit] of them.
func (s *Store) Load(ctx context.Context, workspace, stream events.ID, version int) ([]events.Record, error) {
	return streams{s.db, s.loads}.Load(ctx, workspace, stream, version)
}

// First returns the first record of a stream, none if the stream is empty. It is checked as by Load.
func (s *Store) First(ctx context.Context, workspace, stream events.ID) ([]events.Record, error) {
	return streams{s.db, s.loads}.First(ctx, workspace, stream)
}

// Answer returns what was answered to the actor's command with that idempotency key, and
// the hash of its request. ok is false if there was no such command.
func (s *Store) Answer(
	ctx context.Context, workspace, actor events.ID, key string,
) (answer events.Committed, hash []byte, ok bool, err error) {
	rows, _ := s.db.Query(ctx, `
		select request_hash, answer, seq from commands
		where workspace_id = $1 and actor = $2 and key = $3`, workspace, actor, key)
	answer.Replayed = true
	_, err = pgx.ForEachRow(rows, []any{&hash, &answer.Answer, &answer.Head}, func() error { ok = true; return nil })
	return answer, hash, ok, err
}

// Holder returns the holder of a global key and their workspace. Both are zero if nobody
// holds it.
func (s *Store) Holder(ctx context.Context, key string) (workspace, owner events.ID, err error) {
	rows, _ := s.db.Query(ctx, `select workspace_id, owner from global_keys where key = $1`, key)
	_, err = pgx.ForEachRow(rows, []any{&workspace, &owner}, func() error { return nil })
	return workspace, owner, fault.Wrap(err, "look up key")
}
