package engine

import "sync"

// Shares of the steps that run at once.
const (
	maxSteps      = 16
	maxWorkspace  = maxSteps / 4
	maxRepository = 4
)

// slots counts the steps that run. There is no queue: the caller knows best when to ask again.
type slots struct {
	mu   sync.Mutex
	all  int
	each map[string]int // by workspace and by repository
}

// take returns the function that gives a slot back, nil if there is none. Steps of runs leave a share to those for
// which people wait, and count by themselves.
func (s *slots) take(workspace, repository string, ofRun bool) (release func()) {
	w, r, most := "workspace "+workspace, "repository "+workspace+" "+repository, maxSteps
	if ofRun {
		w, r, most = "runs of "+w, "runs of "+r, maxSteps-maxWorkspace
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= most || s.each[w] >= maxWorkspace || s.each[r] >= maxRepository {
		return nil
	}
	if s.each == nil {
		s.each = map[string]int{}
	}
	s.add(1, w, r)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(-1, w, r)
	}
}

func (s *slots) add(n int, keys ...string) {
	s.all += n
	for _, key := range keys {
		if s.each[key] += n; s.each[key] == 0 {
			delete(s.each, key)
		}
	}
}
