//go:build linux

package runner

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/identity"
	"svc/farm/wire"
)

func TestFirstSignalDrainsSecondCancels(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{Steps: steps("echo ready; while [ ! -e ../go ]; do sleep 0.05; done")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	r.stop <- syscall.SIGTERM
	require.Eventually(t, r.s.draining, waitLimit, time.Millisecond)
	require.NoError(t, os.WriteFile(r.s.cfg.Folder.Path(identity.WorkFolder, k.name(), "go"), nil, 0o600))
	require.NoError(t, r.wait())
	require.Equal(t, "succeeded", f.ended(k).Outcome)
	require.Eventually(t, f.check(func() bool { return f.goodbyes == 1 }), waitLimit, time.Millisecond)

	r = start(t, r.s.cfg.Folder)
	k = f.assign(wire.Assign{Steps: steps("echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	r.stop <- syscall.SIGTERM
	r.stop <- syscall.SIGTERM
	require.NoError(t, r.wait())
	end := f.ended(k)
	require.Equal(t, "infra", end.Outcome)
	require.Equal(t, "agent_stop", end.SignalReason)
}

func TestRevokedRunnerExits(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	require.Eventually(t, f.check(func() bool { return len(f.beats) > 0 }), waitLimit, time.Millisecond)
	f.close(wire.CloseRevoked)
	require.ErrorIs(t, r.wait(), ErrRefused)

	f.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		refuseWith(w, 403, "runner_revoked")
		return true
	}
	require.ErrorIs(t, start(t, r.s.cfg.Folder).wait(), ErrRefused)
	f.refuse = nil

	r = start(t, f.enrolled())
	require.Eventually(t, f.check(func() bool { return len(f.conns) > 0 }), waitLimit, time.Millisecond)
	f.closeSaying(wire.CloseRevoked, wire.Retired)
	require.ErrorIs(t, r.wait(), ErrRetired)
	f.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		refuseWith(w, 403, "runner_retired")
		return true
	}
	require.ErrorIs(t, start(t, r.s.cfg.Folder).wait(), ErrRetired)
}

func TestSupersededRunnerWaits(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	require.Eventually(t, f.check(func() bool { return len(f.beats) > 0 }), waitLimit, time.Millisecond)
	f.close(wire.CloseSuperseded)
	require.Eventually(t, func() bool { return strings.Contains(r.s.status().LastError, "4002") }, waitLimit, time.Millisecond)
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "again_in=1m0s") }, waitLimit, time.Millisecond)
}

// A new supervisor reports the end of the jobs of a killed one, after the last message that the
// service has, even if the disk has fewer messages than the service.
func TestNewSupervisorReportsLostEnd(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	for _, acked := range []int64{0, 2, 9} {
		k := f.assign(wire.Assign{Steps: steps("true")})
		j := newJob(k, [16]byte{}, folder.Path(identity.SpoolFolder, k.name()))
		writeLostSpool(t, j)
		f.mu.Lock()
		f.jobs[k].last = acked
		f.mu.Unlock()
		require.NoError(t, os.MkdirAll(folder.Path(identity.WorkFolder, k.name(), "work", "left"), 0o700))
		r := start(t, folder)
		end := f.ended(k)
		require.Equal(t, "infra", end.Outcome)
		require.Equal(t, "agent_restarted", end.Reason)
		kinds := f.kinds(k)
		require.Equal(t, []string{"notice", "finished"}, kinds[len(kinds)-2:])
		require.True(t, f.with(k, func(j *farmJob) bool { return j.last == max(acked, 3)+2 })())
		r.requireNoJobs()
		r.cancel()
		require.NoError(t, r.wait())
	}
}

func TestStatusSaysWhatRuns(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	start(t, folder)
	k := f.assign(wire.Assign{Name: "long", Steps: steps("echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	st, err := AskStatus(t.Context(), folder)
	require.NoError(t, err)
	require.False(t, st.Connected.IsZero())
	require.Equal(t, "builder-1", st.Name)
	require.Len(t, st.Jobs, 1)
	require.Equal(t, "running long", st.Jobs[0].State+" "+st.Jobs[0].Name)
	require.Eventually(t, f.check(func() bool {
		last := f.beats[len(f.beats)-1]
		return len(last.Jobs) == 1 && last.Jobs[0].Job == k.jobID && last.Jobs[0].RSSBytes > 1<<20 && len(last.Held) == 1 && last.Free == 3
	}), waitLimit, 10*time.Millisecond)
	_, err = NewSupervisor(t.Context(), Config{Folder: identity.Folder(t.TempDir())})
	require.ErrorIs(t, err, identity.ErrNotEnrolled)
	_, err = folder.Uninstall(t.Context(), false)
	require.ErrorIs(t, err, identity.ErrRunning)
}
