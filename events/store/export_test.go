package store

import (
	"slices"
	"time"

	"svc/events"
)

// Room is how many commits may wait in a lane.
const Room = queued

// An Outcome is what Append would have returned.
type Outcome struct {
	events.Committed
	Err error
}

// Together carries out commits as a lane does that found all of them waiting,
// in this order.
func Together(s *Store, commits ...*events.Commit) (list []Outcome) {
	var batch []*pending
	for _, c := range commits {
		batch = append(batch, &pending{commit: c, done: make(chan struct{})})
	}
	s.commit(slices.Clone(batch), s.patience*2/5)
	for _, p := range batch {
		<-p.done
		list = append(list, Outcome{p.result, p.err})
	}
	return list
}

// SetPatience changes how long a transaction of s may take. Nothing may be
// under way.
func SetPatience(s *Store, d time.Duration) { s.patience = d }

const ForgetSQL = forgetSQL
