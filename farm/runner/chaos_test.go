//go:build linux

package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/wire"
)

// Connections are cut, acknowledgements are late and out of order, assignments are repeated, and
// the supervisor is replaced. The farm of these tests records any message that does not fit.
func TestEveryMessageArrivesOnceAndInOrder(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.changeWelcome = func(w *wire.Welcome) { w.Limits = wire.Limits{WindowMessages: 5, WindowBytes: 40_000} }
	f.ackDelay = func() { <-time.After(rand.N(30 * time.Millisecond)) }
	r := start(t, f.enrolled(), reconnectAtOnce)
	var jobs []attemptKey
	for range 4 {
		jobs = append(jobs, f.assign(wire.Assign{RunSeconds: 120, Steps: steps(
			"i=0; while [ $i -lt 25 ]; do echo line $i of some output; head -c 9000 /dev/zero | tr '\\0' x; i=$((i+1)); sleep 0.04; done",
			"echo second", "exit 1")}))
	}
	stop := make(chan struct{})
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20*time.Millisecond + rand.N(150*time.Millisecond)):
			}
			f.cutAll()
			f.mu.Lock()
			for k, j := range f.jobs { // the jobs assigned so far
				if len(f.conns) > 0 && j.end() == nil {
					f.conns[len(f.conns)-1].send(j.spec, k)
				}
			}
			f.mu.Unlock()
		}
	}()
	for _, k := range jobs {
		end := f.ended(k)
		require.Equal(t, "failed", end.Outcome)
		require.Equal(t, []string{"started", "step.started", "step.finished", "step.started", "step.finished", "step.started",
			"step.finished", "finished"}, f.kinds(k))
		log := f.log(k)
		sum := sha256.Sum256([]byte(log))
		require.Equal(t, hex.EncodeToString(sum[:]), end.Log.SHA256)
		require.Equal(t, 25, strings.Count(log, "of some output"))
	}
	close(stop)
	<-cut
	r.requireNoJobs()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Greater(t, len(f.hellos), 5)
	require.Empty(t, f.problems)
	require.Empty(t, f.declined)
}

// largeCapacity sets a capacity above the number of jobs, since the farm of these tests does not reassign
// declined jobs.
func largeCapacity(c *Config) { c.Capacity = 64 }

// The supervisor is replaced again and again in the middle of jobs.
func TestJobsEndOnceAcrossSupervisors(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	var jobs []attemptKey
	for range 5 {
		r := start(t, folder, reconnectAtOnce, largeCapacity)
		for range 2 {
			jobs = append(jobs, f.assign(wire.Assign{Steps: steps("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done")}))
		}
		last := jobs[len(jobs)-1]
		want := rand.IntN(4)
		require.Eventually(t, f.with(last, func(j *farmJob) bool {
			return len(j.events) >= min(want, 2) &&
				(want < 3 || len(j.log) > 4)
		}), waitLimit, time.Millisecond)
		r.cancel()
		require.NoError(t, r.wait())
	}
	r := start(t, folder, reconnectAtOnce, largeCapacity)
	for _, k := range jobs {
		require.Contains(t, []string{"succeeded", "infra"}, f.ended(k).Outcome)
	}
	r.requireNoJobs()
}

// The service finds a message of one job malformed each time. That job is dropped, and the others
// end.
func TestMalformedJobIsDropped(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled(), reconnectAtOnce)
	require.Eventually(t, f.check(func() bool { return len(f.beats) > 0 }), waitLimit, time.Millisecond)
	well := f.assign(wire.Assign{Steps: steps("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done")})
	require.Eventually(t, f.with(well, func(j *farmJob) bool { return j.last > 0 }), waitLimit, time.Millisecond)
	bad := attemptKey{events.NewID(time.Now()).String(), 1}
	f.mu.Lock()
	f.malformed = map[attemptKey]int{bad: 0}
	f.mu.Unlock()
	f.assignAs(bad, wire.Assign{Steps: steps("sleep 86399")})
	require.Equal(t, "succeeded", f.ended(well).Outcome)
	r.requireNoJobs()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.GreaterOrEqual(t, f.malformed[bad], malformedLimit, "several may come by one connection")
	require.Empty(t, f.problems)
}

// A full window blocks the sender, not the build.
func TestBuildDoesNotWaitForService(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	blocked := make(chan struct{})
	f.ackDelay = func() { <-blocked }
	f.changeWelcome = func(w *wire.Welcome) { w.Limits = wire.Limits{WindowMessages: 3, WindowBytes: 200_000} }
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{Steps: steps("head -c 5000000 /dev/zero | tr '\\0' x; echo")})
	require.Eventually(t, func() bool {
		st := r.s.status()
		return len(st.Jobs) == 1 && st.Jobs[0].State == stateFinished && st.Jobs[0].SpoolSize > 5_000_000
	}, waitLimit, time.Millisecond)
	require.True(t, f.with(k, func(j *farmJob) bool { return j.last <= 3 })())
	close(blocked)
	require.EqualValues(t, 5_000_001, f.ended(k).Log.Bytes)
	r.requireNoJobs()
}

func TestLogLimit(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.changeWelcome = func(w *wire.Welcome) { w.Limits = wire.Limits{LogBytesPerJob: 100_000} }
	r := start(t, f.enrolled())
	require.Eventually(t, f.check(func() bool { return len(f.beats) > 0 }), waitLimit, time.Millisecond)
	k := f.assign(wire.Assign{Steps: steps("head -c 300000 /dev/zero | tr '\\0' x", "echo the job goes on; exit 5")})
	end := f.ended(k)
	require.Equal(t, 5, *end.ExitCode)
	require.True(t, end.Log.Truncated)
	require.EqualValues(t, 100_000, end.Log.Bytes)
	log := f.log(k)
	require.Len(t, log, 100_000)
	require.True(t, strings.HasSuffix(log, "x\n[the log has reached its limit of 100000 bytes; the job goes on]\n"))
	require.True(t, f.with(k, func(j *farmJob) bool { return j.cut })())
	r.requireNoJobs()
}
