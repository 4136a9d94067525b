//go:build linux

package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/wire"
)

// A job begins when the service has confirmed that it is this runner's: a service that did not hear
// the accept gives the job to another runner.
func TestJobBeginsOnceItsAcceptIsStored(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.ignoreAccepts = true
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{Steps: steps("true")})
	accepted := func(n int) func() bool { return f.with(k, func(j *farmJob) bool { return j.accepted >= n }) }
	require.Eventually(t, accepted(1), waitLimit, time.Millisecond)
	f.cutAll()
	require.Eventually(t, accepted(2), waitLimit, time.Millisecond, "it is repeated on the next connection")
	f.mu.Lock()
	f.ignoreAccepts = false
	stored := time.Now().Truncate(time.Millisecond)
	f.mu.Unlock()
	f.cutAll()
	end := f.ended(k)
	require.Equal(t, "succeeded", end.Outcome)
	require.False(t, end.StartedAt.Before(stored), "it began at %v", end.StartedAt)
	r.requireNoJobs()
}

func TestUnconfirmedJobIsDroppedBeforeLeaseExpires(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.ignoreAccepts, f.ignoreHeartbeats = true, true
	f.changeWelcome = func(w *wire.Welcome) { w.LeaseSeconds = 12 }
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{LeaseSeconds: 12, Steps: steps("true")})
	require.Eventually(t, f.with(k, func(j *farmJob) bool { return j.accepted == 1 }), waitLimit, time.Millisecond)
	r.requireNoJobs()
	require.True(t, f.with(k, func(j *farmJob) bool { return len(j.events) == 0 })(), "nothing of it ran")
}

func TestDeclineReasons(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	r := start(t, folder, func(c *Config) { c.Capacity = 1 })
	long := f.assign(wire.Assign{Steps: steps("echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(long), "ready") }, waitLimit, time.Millisecond)
	declines := func(want string) {
		t.Helper()
		require.Eventually(t, f.check(func() bool { return len(f.declined) > 0 }), waitLimit, time.Millisecond)
		f.mu.Lock()
		defer f.mu.Unlock()
		require.Equal(t, want, f.declined[0].Reason)
		f.declined = nil
	}
	f.assign(wire.Assign{Steps: steps("true")})
	declines("busy")
	f.send(wire.Cancel{}, long)
	f.ended(long)
	r.requireNoJobs()
	f.assign(wire.Assign{Sandbox: wire.Sandbox{Kind: "podman"}})
	declines("unsupported")
	f.assign(wire.Assign{Sandbox: wire.Sandbox{Kind: "none", Network: "bridge"}})
	declines("unsupported")
	f.assign(wire.Assign{Steps: []wire.Step{{Shell: "fish"}}})
	declines("unsupported")
	f.send(wire.Drain{}, attemptKey{})
	f.assign(wire.Assign{Steps: steps("true")})
	declines("draining")
	f.send(wire.Drain{End: true}, attemptKey{})
	require.Eventually(t, func() bool { return !r.s.draining() }, waitLimit, time.Millisecond)
	st, err := AskDrain(t.Context(), folder, false)
	require.NoError(t, err)
	require.Equal(t, []string{"svc-runner drain"}, st.Draining)
	f.assign(wire.Assign{Steps: steps("true")})
	declines("draining")
	_, err = AskDrain(t.Context(), folder, true)
	require.NoError(t, err)
	f.ended(f.assign(wire.Assign{Steps: steps("true")}))
	r.cancel()
	require.NoError(t, r.wait())
	_, err = AskStatus(t.Context(), folder)
	require.ErrorIs(t, err, ErrNotRunning)

	start(t, folder, func(c *Config) { c.MinDiskFree = 1 << 60 })
	f.assign(wire.Assign{Steps: steps("true")})
	declines("disk_full")
}
