package main

import (
	"context"

	"svc/dev/codehost"
)

// runsInTurn is how many runs one side makes one after the other in a turn.
const runsInTurn = 5

// runLoop compares whole runs, from the queue until nothing is left to do, with their git commands and requests to
// the code host alone.
func runLoop(ctx context.Context, s *suite) (result, error) {
	n := (*rounds + 1) * runsInTurn
	l, err := s.newLoopStack(ctx, []codehost.Repository{newRepository("acme/ours", n), newRepository("acme/theirs", n)})
	if err != nil {
		return result{}, err
	}
	defer l.stop()
	if err := l.startRunner(ctx, 1); err != nil {
		return result{}, err
	}
	repo, err := l.connect(ctx, "acme/ours", 5, "true")
	if err != nil {
		return result{}, err
	}
	byHand, err := newHandmade(ctx, l.file("handmade"), l.codeHost, "acme/theirs")
	if err != nil {
		return result{}, err
	}
	ours, theirs := 0, 0
	return compareTimes(ctx,
		func() (work, error) {
			return times(runsInTurn, func() error {
				ours++
				if _, err := l.queue(ctx, repo, ours); err != nil {
					return err
				}
				return l.finish(ctx, ours)
			})
		},
		func() (work, error) {
			return times(runsInTurn, func() error {
				theirs++
				return byHand.run(ctx, theirs)
			})
		})
}
