// Package lookup answers lookups that arrive at the same moment with one query. It caches
// nothing: every answer comes from a query that started after the lookup was requested.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	maxQueries = 2               // concurrent queries of a group; further lookups wait and share the next query
	maxKeys    = 256             // keys in a query
	timeout    = 5 * time.Second // for a query, and for waiting until it may start
)

var (
	errInterrupted = errors.New("the query for several was interrupted")
	errTurnTimeout = fmt.Errorf("wait for those who asked before: %w", context.DeadlineExceeded)
)

// A Group combines lookups of values by key. The zero Group is ready for use.
type Group[K comparable, V any] struct {
	mu      sync.Mutex
	pending *round[K, V]  // accepts keys until its query starts
	slots   chan struct{} // a semaphore: holds a value for each running query
}

// A round is a query and the callers that wait for its result.
type round[K comparable, V any] struct {
	keys  map[K]struct{}
	done  chan struct{}
	found map[K]V
	err   error
}

// Find returns the value of a key. It calls ask with this and other callers' keys; ok is
// false if the result lacks the key. All callers of a group must pass the same ask. An error of ask is
// that of every caller.
func (g *Group[K, V]) Find(ctx context.Context, key K, ask func(context.Context, []K) (map[K]V, error)) (v V, ok bool, err error) {
	r, first := g.join(key)
	if first {
		g.answer(context.WithoutCancel(ctx), r, ask) // other callers wait for the result too
	}
	select {
	case <-r.done:
		v, ok = r.found[key]
		return v, ok, r.err
	case <-ctx.Done():
		return v, false, ctx.Err()
	}
}

// join adds a key to the pending round. first is true if the caller has to run the query.
func (g *Group[K, V]) join(key K) (r *round[K, V], first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slots == nil {
		g.slots = make(chan struct{}, maxQueries)
	}
	if first = g.pending == nil || len(g.pending.keys) >= maxKeys; first {
		g.pending = &round[K, V]{keys: map[K]struct{}{}, done: make(chan struct{}), err: errInterrupted}
	}
	g.pending.keys[key] = struct{}{}
	return g.pending, first
}

// answer waits until its query may start, closes the round and runs the query. It first
// yields to goroutines that can run, because they may be about to join.
func (g *Group[K, V]) answer(ctx context.Context, r *round[K, V], ask func(context.Context, []K) (map[K]V, error)) {
	runtime.Gosched()
	defer close(r.done)
	timer, late := time.NewTimer(timeout), false
	defer timer.Stop()
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-timer.C:
		late = true
	}
	g.mu.Lock()
	if g.pending == r {
		g.pending = nil
	}
	keys := slices.Collect(maps.Keys(r.keys))
	g.mu.Unlock()
	if late {
		r.err = errTurnTimeout
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.found, r.err = ask(ctx, keys)
}
