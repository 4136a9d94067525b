package feed

import (
	"context"
	"time"
)

// A pace lets one at a time of many do something that is a burden to others, and
// after each nobody for as long as it took. So all of them together take half of
// one processor, however many they are.
//
// The channel has the moment from which the next may begin, unless somebody is
// at it.
type pace chan time.Time

func newPace() pace {
	p := make(pace, 1)
	p <- time.Time{}
	return p
}

// take waits for its turn, in the order of coming, and does it.
func (p pace) take(ctx context.Context, do func() error) error {
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
