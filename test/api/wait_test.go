package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// eventually polls until done returns true. Unlike require.Eventually it calls done in the test's
// goroutine, so that done may fail the test.
func eventually(t *testing.T, done func() bool, about ...any) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); <-poll.C {
		if done() {
			return
		}
	}
	require.Fail(t, "timed out", about...)
}
