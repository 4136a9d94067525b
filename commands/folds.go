package commands

import (
	"context"
	"reflect"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"svc/events"
	"svc/fault"
)

// maxFolds is how many streams a process keeps folded.
const maxFolds = 20_000

// folds caches aggregates between commands. What it has may be stale, which is
// safe: the append compares versions.
type folds struct {
	cache *lru.Cache[foldKey, *fold]
}

// A foldKey says what the stream is taken for: whoever asks names a stream as
// they like, and an account's id may turn out to be that of a run.
type foldKey struct {
	workspace, stream events.ID
	aggregate         reflect.Type
}

func newFolds() *folds {
	cache, err := lru.New[foldKey, *fold](maxFolds)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &folds{cache}
}

// of returns the fold of a stream, an empty one if it is not cached.
func (c *folds) of(key foldKey) *fold {
	f := &fold{key: key, free: make(chan struct{}, 1)}
	f.free <- struct{}{}
	if known, ok, _ := c.cache.PeekOrAdd(key, f); ok {
		c.cache.Get(key) // it was used
		return known
	}
	return f
}

// A fold is an aggregate and how far it has come. One command at a time holds
// it, from its decision to the end of its append, so that the commands of one
// process do not overtake each other.
type fold struct {
	key       foldKey
	free      chan struct{}
	waiting   atomic.Int32 // commands that wait for it
	state     state        // nil until it is first loaded
	version   int
	seq       int64     // of the newest event in it
	last      events.ID // that event; zero if only a snapshot is known of it
	due       int       // the version at which a snapshot is worth taking
	contended bool      // other processes write to the stream: it is decided under a lock
}

// A state is an aggregate, whichever.
type state interface {
	Apply(e events.Event, by events.ID)
}

// Between two snapshots of a stream there are as many events, or as many as take
// about as long to fold as a large snapshot takes to write.
const (
	eventsBetween = 500
	bytesAnEvent  = 256
)

// kept says how large the newest snapshot is, which is of the fold as it is.
func (f *fold) kept(size int) { f.due = f.version + max(eventsBetween, size/bytesAnEvent) }

// maxQueue is how many commands may wait for a fold.
const maxQueue = 4096

// lock waits for the fold, as long as ctx does. Whoever comes first is first.
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

// follow takes in records that begin with the newest event in the fold. It
// reports false, and takes in none, if they do not.
func (f *fold) follow(records []events.Record) bool {
	if f.version > 0 {
		if len(records) == 0 || records[0].Version != f.version || records[0].Seq != f.seq || !f.last.IsZero() && records[0].ID != f.last {
			return false
		}
		f.last, records = records[0].ID, records[1:]
	}
	f.take(records)
	return true
}

// forget empties the fold: whoever needs it next reads the stream.
func (f *fold) forget() { f.state, f.version, f.seq, f.last, f.due = nil, 0, 0, events.ID{}, 0 }

// take applies those of the records that are of this stream and follow.
func (f *fold) take(records []events.Record) {
	for _, r := range records {
		if r.Stream == f.key.stream && r.Version == f.version+1 {
			f.state.Apply(r.Event, r.Actor.ID)
			f.version, f.seq, f.last = r.Version, r.Seq, r.ID
		}
	}
}
