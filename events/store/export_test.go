package store

import (
	"slices"
	"time"

	"svc/events"
)

// LaneCapacity is how many commits may wait in a lane.
const LaneCapacity = laneCapacity

// An Outcome holds the results of Append.
type Outcome struct {
	events.Committed
	Err error
}

// CommitTogether stores commits as one batch, in this order, as if all of them had waited
// in a lane.
func CommitTogether(s *Store, commits ...*events.Commit) (list []Outcome) {
	var batch []*pending
	for _, c := range commits {
		batch = append(batch, &pending{commit: c, done: make(chan struct{})})
	}
	s.commit(slices.Clone(batch), s.timeLimit*2/5)
	for _, p := range batch {
		<-p.done
		list = append(list, Outcome{p.result, p.err})
	}
	return list
}

// SetTimeLimit changes the time limit of transactions of s. No commit may be under way.
func SetTimeLimit(s *Store, d time.Duration) { s.timeLimit = d }

const ForgetSQL = forgetSQL
