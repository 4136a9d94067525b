package work

import (
	"context"
	"reflect"
	"sync/atomic"

	"svc/events"
	"svc/fault"
	"svc/lru"
)

// maxFolds is how many folds a process caches.
const maxFolds = 20_000

// folds caches aggregates between commands. They may be stale, which is safe because the
// append compares versions.
type folds struct {
	cache *lru.Cache[foldKey, *fold]
}

// A foldKey includes the type of the aggregate, because callers can name any stream: what
// they call an account may be a run.
type foldKey struct {
	workspace, stream events.ID
	aggregate         reflect.Type
}

func newFolds() *folds {
	return &folds{lru.New[foldKey, *fold](maxFolds)}
}

// get returns the fold of a stream, an empty one if it is not cached.
func (c *folds) get(key foldKey) *fold {
	f := &fold{key: key, free: make(chan struct{}, 1)}
	f.free <- struct{}{}
	if known, ok, _ := c.cache.PeekOrAdd(key, f); ok {
		c.cache.Get(key) // marks it as recently used
		return known
	}
	return f
}

// A fold is an aggregate and its position in the log. One command at a time holds it, from
// its decision to the end of its append, so that commands of one process do not overtake
// each other.
type fold struct {
	key        foldKey
	free       chan struct{}
	waiting    atomic.Int32 // commands that wait for it
	state      state        // nil until it is loaded
	version    int
	seq        int64     // of the newest event that it includes
	last       events.ID // id of that event; zero if it was restored from a snapshot
	snapshotAt int       // the version at which to take the next snapshot
	contended  bool      // other processes write to the stream too, so it is decided under the lock of the log
}

// A state is an aggregate of any type.
type state interface {
	Apply(e events.Event, by events.Actor)
}

// Between two snapshots of a stream there are at least minEventsPerSnapshot events. For a large
// snapshot there are more, so that folding them takes about as long as writing it.
const (
	minEventsPerSnapshot = 500
	bytesPerEvent        = 256
)

// scheduleSnapshot schedules the next snapshot, after one of the current version with that size.
func (f *fold) scheduleSnapshot(size int) {
	f.snapshotAt = f.version + max(minEventsPerSnapshot, size/bytesPerEvent)
}

// maxQueue limits how many commands may wait for a fold.
const maxQueue = 4096

// lock waits for the fold until ctx ends. Waiters are served in order.
func (f *fold) lock(ctx context.Context) error {
	if f.waiting.Add(1) > maxQueue {
		f.waiting.Add(-1)
		return fault.ErrBusy
	}
	defer f.waiting.Add(-1)
	select {
	case <-f.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fold) tryLock() bool {
	select {
	case <-f.free:
		return true
	default:
		return false
	}
}

func (f *fold) unlock() { f.free <- struct{}{} }

// catchUp applies the records after the newest event in the fold. The first record has to be
// that event; if it is not, catchUp returns false and applies nothing.
func (f *fold) catchUp(records []events.Record) bool {
	if f.version > 0 {
		if len(records) == 0 || records[0].Version != f.version || records[0].Seq != f.seq || !f.last.IsZero() && records[0].ID != f.last {
			return false
		}
		f.last, records = records[0].ID, records[1:]
	}
	f.apply(records)
	return true
}

// forget clears the fold, so that the next command loads the stream again.
func (f *fold) forget() { f.state, f.version, f.seq, f.last, f.snapshotAt = nil, 0, 0, events.ID{}, 0 }

// apply applies the records that continue this stream.
func (f *fold) apply(records []events.Record) {
	for _, r := range records {
		if r.Stream == f.key.stream && r.Version == f.version+1 {
			f.state.Apply(r.Event, r.Actor)
			f.version, f.seq, f.last = r.Version, r.Seq, r.ID
		}
	}
}
