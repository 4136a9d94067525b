package work

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A caller with a deadline has time left to answer after the command has given up.
func TestDeadlineLeavesTimeToAnswer(t *testing.T) {
	t.Parallel()
	for given, want := range map[time.Duration]time.Duration{
		0:                     maxWait, // no deadline
		time.Minute:           maxWait,
		20 * time.Second:      19 * time.Second,
		5 * time.Second:       4500 * time.Millisecond,
		50 * time.Millisecond: 45 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if given > 0 {
				ctx, cancel = context.WithTimeout(ctx, given)
			}
			defer cancel()
			began := time.Now()
			within, end := withDeadline(ctx)
			defer end()
			<-within.Done()
			require.Equal(t, want, time.Since(began))
		})
	}
}
