//go:build linux

package run

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNothingAcknowledgedIsEverLost kills a replica and PostgreSQL in turn,
// with kill -9, while eight writers go on. The other replica is never started
// again: it has to come back by itself. SVC_CHAOS_SECONDS makes it last longer.
func TestNothingAcknowledgedIsEverLost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	w := startWriters(t, s, 8)
	seconds, _ := strconv.Atoi(os.Getenv("SVC_CHAOS_SECONDS")) // without it, three of each
	until := time.Now().Add(time.Duration(seconds) * time.Second)
	for round := 0; round < 3 || time.Now().Before(until); round++ {
		w.requireProgress(t)
		s.rest[0].process.kill()
		s.startRest(s.rest[0])
		w.requireProgress(t)
		require.NoError(t, s.server.Kill())
		s.startPostgres()
	}
	w.requireProgress(t)
	deeds := w.end(t)
	requireReady(t, s.rest[1].url())
	requireEachDeedOnce(t, s, deeds)
	requireWholeLogs(t, s)
	requireCaughtUp(t, s)
	requireViewsAsRebuilt(t, s)
	requireTokensOf(t, s, deeds) // last: the use of old tokens is noted in the log
	s.stop()
}

// requireProgress waits until both replicas have acknowledged more.
func (w *writers) requireProgress(t *testing.T) {
	t.Helper()
	var before [2]int64
	for i := range w.acks {
		before[i] = w.acks[i].Load()
	}
	require.Eventually(t, func() bool {
		return w.acks[0].Load() >= before[0]+10 && w.acks[1].Load() >= before[1]+10
	}, patience, time.Millisecond, "nothing is acknowledged any more")
}
