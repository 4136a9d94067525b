package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// eventually asks again and again until done. It is for what other processes
// do; unlike require.Eventually it asks in the test's own goroutine, so that a
// question may fail the test.
func eventually(t *testing.T, done func() bool, about ...any) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for late := time.Now().Add(limit); time.Now().Before(late); <-again.C {
		if done() {
			return
		}
	}
	require.Fail(t, "it does not come to be", about...)
}
