// Package lookup answers questions that many ask at the same moment with one
// query. Nothing is remembered: every answer comes from a query that began after
// the question was put.
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
	atOnce = 2               // queries of a group under way; further questions wait and share the next
	most   = 256             // keys in a query
	limit  = 5 * time.Second // for a query, and for its turn
)

var (
	errInterrupted = errors.New("the query for several was interrupted")
	errTurn        = fmt.Errorf("wait for those who asked before: %w", context.DeadlineExceeded)
)

// A Group gathers questions of one kind: which value has a key. The zero Group is
// ready for use.
type Group[K comparable, V any] struct {
	mu    sync.Mutex
	next  *round[K, V]  // takes questions until its query begins
	turns chan struct{} // has one for each query under way
}

// A round is a query and whoever waits for what it finds.
type round[K comparable, V any] struct {
	keys  map[K]struct{}
	done  chan struct{}
	found map[K]V
	err   error
}

// Find returns the value of a key, which ask looks up for any number of keys;
// ok is false if ask finds none. All callers of a group pass the same ask.
func (g *Group[K, V]) Find(ctx context.Context, key K, ask func(context.Context, []K) (map[K]V, error)) (v V, ok bool, err error) {
	r, first := g.join(key)
	if first {
		g.answer(context.WithoutCancel(ctx), r, ask) // others wait for it, too
	}
	select {
	case <-r.done:
		v, ok = r.found[key]
		return v, ok, r.err
	case <-ctx.Done():
		return v, false, ctx.Err()
	}
}

// join adds a question to the next round. Whoever is first in it asks for all.
func (g *Group[K, V]) join(key K) (r *round[K, V], first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turns == nil {
		g.turns = make(chan struct{}, atOnce)
	}
	if first = g.next == nil || len(g.next.keys) >= most; first {
		g.next = &round[K, V]{keys: map[K]struct{}{}, done: make(chan struct{}), err: errInterrupted}
	}
	g.next.keys[key] = struct{}{}
	return g.next, first
}

// answer waits for its turn, closes the round to others and asks. Those who can run
// come first: they may be about to join.
func (g *Group[K, V]) answer(ctx context.Context, r *round[K, V], ask func(context.Context, []K) (map[K]V, error)) {
	runtime.Gosched()
	defer close(r.done)
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case g.turns <- struct{}{}:
		defer func() { <-g.turns }()
	case <-late.C:
		g.seal(r)
		r.err = errTurn
		return
	}
	keys := g.seal(r)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.found, r.err = ask(ctx, keys)
}

// seal closes a round to others and returns what it is to ask.
func (g *Group[K, V]) seal(r *round[K, V]) []K {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == r {
		g.next = nil
	}
	return slices.Collect(maps.Keys(r.keys))
}
