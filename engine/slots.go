package engine

import (
	"context"
	"sync"
	"time"
)

// Shares of the steps that run at once, and how many more may wait for a slot.
const (
	maxSteps      = 16
	maxWorkspace  = maxSteps / 4
	maxRepository = 4
	maxWaiting    = 4 * maxSteps
	slotWait      = 10 * time.Second
)

// slots counts the steps that run. Others wait a moment: a caller that had to ask again would leave slots free meanwhile.
type slots struct {
	wait    time.Duration // at most
	mu      sync.Mutex
	all     int
	each    map[string]int // by workspace and by repository
	waiting int
	freed   chan struct{} // closed when a slot is given back
}

// take returns the function that gives a slot back, nil if there is none in time. Steps of runs leave a share to those
// for which people wait, and count by themselves.
func (s *slots) take(ctx context.Context, workspace, repository string, ofRun bool) (release func()) {
	w, r, most := "workspace "+workspace, "repository "+workspace+" "+repository, maxSteps
	if ofRun {
		w, r, most = "runs of "+w, "runs of "+r, maxSteps-maxWorkspace
	}
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.each == nil {
		s.each, s.freed = map[string]int{}, make(chan struct{})
	}
	for s.all >= most || s.each[w] >= maxWorkspace || s.each[r] >= maxRepository {
		if s.waiting >= maxWaiting || ctx.Err() != nil {
			return nil
		}
		s.await(ctx)
	}
	s.add(1, w, r)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(-1, w, r)
		close(s.freed)
		s.freed = make(chan struct{})
	}
}

// await waits, without the lock, until a slot is given back or ctx ends.
func (s *slots) await(ctx context.Context) {
	freed := s.freed
	s.waiting++
	s.mu.Unlock()
	select {
	case <-freed:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.waiting--
}

func (s *slots) add(n int, keys ...string) {
	s.all += n
	for _, key := range keys {
		if s.each[key] += n; s.each[key] == 0 {
			delete(s.each, key)
		}
	}
}
