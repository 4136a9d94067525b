//go:build linux && !race

package run

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"svc/projections"
)

// TestRebuildDuringRequests rebuilds views while readers of every view and writers go on
// without errors.
func TestRebuildDuringRequests(t *testing.T) {
	t.Parallel()
	s := newDeployment(t)
	w := startWriters(t, s, 3)
	failed := startReaders(t, s)
	for _, names := range [][]string{nil, {"members"}, {"runs"}, {"audit", "service_tokens"}} { // no name means all views
		text := s.svcDB(append([]string{"rebuild"}, names...)...)
		require.Equal(t, cmp.Or(len(names), len(projections.All())), strings.Count(text, ": rebuilt from "), text)
		for _, name := range names {
			require.Contains(t, text, name+": rebuilt from ")
		}
		w.requireProgress(t)
		select {
		case failure := <-failed:
			require.Fail(t, failure)
		default:
		}
	}
	sent, lost := w.finish(t), 0
	for _, d := range sent {
		if d.outcome == unknown {
			lost++
		}
	}
	require.LessOrEqual(t, lost, len(sent)/50, "commands with an unknown outcome")
	requireEachCommandOnce(t, s, sent)
	requireCaughtUp(t, s)
	requireSigned(t, s)
	requireViewsAsRebuilt(t, s)
	s.stop()
}

// startReaders reads every view at both replicas until the test ends. It sends the first
// failure to the channel.
func startReaders(t *testing.T, s *deployment) <-chan string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	failed := make(chan string, 1)
	pace := rate.NewLimiter(requestRate(), 1)
	var group sync.WaitGroup
	for i, path := range []string{"/runs?status=active", "/runs?status=terminal", "/members", "/service-accounts", "/audit", "/workspace"} {
		group.Go(func() {
			for n, busy := i, 0; pace.Wait(ctx) == nil; n++ {
				a, err := s.owner.send("GET", s.rest[n%2].url()+"/api/v1"+path, nil)
				if err == nil && a.status == http.StatusServiceUnavailable && busy < 3 { // the machine is overloaded
					busy++
					continue
				}
				if busy = 0; ctx.Err() == nil && (err != nil || a.status != http.StatusOK) {
					select {
					case failed <- fmt.Sprintf("GET %s: %d %s %v", path, a.status, a.body, err):
					default: // one is enough
					}
				}
			}
		})
	}
	t.Cleanup(func() { stop(); group.Wait() })
	return failed
}
