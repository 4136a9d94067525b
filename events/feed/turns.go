package feed

import (
	"context"
	"time"
)

// turns runs costly actions of many callers one at a time, and rests after each for as
// long as it took. All callers together thus use at most half of one processor.
//
// The channel holds the time at which the next action may begin. It is empty while an
// action runs.
type turns chan time.Time

func newTurns() turns {
	t := make(turns, 1)
	t <- time.Time{}
	return t
}

// run waits for its turn, first come first served, and runs do.
func (t turns) run(ctx context.Context, do func() error) error {
	var free time.Time
	select {
	case <-ctx.Done():
		return ctx.Err()
	case free = <-t:
	}
	defer func() { t <- free }()
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
