package feed

import (
	"context"
	"time"
)

// A turns runs costly actions of many callers one at a time, and rests after each for as
// long as it took. All callers together thus use at most half of one processor.
//
// The channel holds the time at which the next action may begin. It is empty while an
// action runs.
type turns chan time.Time

func newTurns() turns {
	p := make(turns, 1)
	p <- time.Time{}
	return p
}

// take waits for its turn, first come first served, and runs do.
func (p turns) take(ctx context.Context, do func() error) error {
	var free time.Time
	select {
	case <-ctx.Done():
		return ctx.Err()
	case free = <-p:
	}
	defer func() { p <- free }()
	wait := time.NewTimer(time.Until(free))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
	}
	begun := time.Now()
	err := do()
	free = time.Now().Add(time.Since(begun))
	return err
}
