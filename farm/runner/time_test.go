//go:build linux

package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/runner/executor"
	"svc/farm/runner/spool"
	"svc/farm/wire"
)

// The job's process gets the order to kill at once, as without a grace period.
func TestArtifactsOfCancelledJobAreCollected(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{Steps: steps("echo x >a; echo ready; while [ ! -e ../go ]; do sleep 0.05; done"),
		Artifacts: []wire.Artifact{{Name: "all", Paths: []string{"a"}, When: "always"}}})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	f.send(wire.Cancel{}, k)
	end := f.ended(k)
	require.Equal(t, "cancelled", end.Outcome)
	require.Equal(t, 1, end.Artifacts)
	r.requireNoJobs()
}

// On a full disk, here a taken name, the lost end of a job cannot be stored. It is once there is room.
// If there is none for long, the job is given up and no longer shown as held.
func TestLostEndOnFullDisk(t *testing.T) {
	for name, full := range map[string]time.Duration{"for a moment": 5 * time.Second, "for long": time.Hour} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "job")
			synctest.Test(t, func(t *testing.T) {
				s, j := supervisorWithLostJob(t, dir)
				taken := filepath.Join(dir, fmt.Sprintf("%016x.log", 10))
				require.NoError(t, os.Mkdir(taken, 0o700))

				s.applyVerdict(wire.Verdict{Job: j.jobID, Epoch: 1, Verdict: wire.Continue, Acked: 9}, true)
				synctest.Wait()
				time.Sleep(full)
				if full > reportEndFor {
					require.Empty(t, s.heldJobs())
					require.NoDirExists(t, dir)
					return
				}
				require.Len(t, s.heldJobs(), 1)
				require.EqualValues(t, 3, j.spool.Last())
				s.applyVerdict(wire.Verdict{Job: j.jobID, Epoch: 1, Verdict: wire.Continue, Acked: 9}, true) // by another connection
				require.NoError(t, os.Remove(taken))
				time.Sleep(time.Second)
				synctest.Wait()
				require.EqualValues(t, 11, j.finishedSeq)
				require.EqualValues(t, 11, j.spool.Last(), "it is reported once")
				seq, ok := j.nextToSend(wire.Limits{WindowMessages: 1, WindowBytes: 1})
				require.True(t, ok)
				require.EqualValues(t, 10, seq)
				require.NoError(t, j.remove())
			})
		})
	}
}

// What is stored already is not stored again when the rest is tried again: the notice without the end, or
// the end that cannot be made durable, whose job stays since the service may have received it.
func TestLostEndIsStoredOnce(t *testing.T) {
	for name, durable := range map[string]bool{"no room after the notice": true, "not durable": false} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "job")
			synctest.Test(t, func(t *testing.T) {
				s, j := supervisorWithLostJob(t, dir)
				acked, full, last := int64(9), time.Hour, int64(11)
				taken := filepath.Join(dir, fmt.Sprintf("%016x.log", 10))
				if durable {
					_, err := j.spool.Append(executor.KindChunk, make([]byte, 4<<20-j.spool.Bytes()-64)) // there is room for the notice alone
					require.NoError(t, err)
					acked, full, last = 4, 5*time.Second, 6
					taken = filepath.Join(dir, fmt.Sprintf("%016x.log", 6))
					require.NoError(t, os.Mkdir(taken, 0o700))
				} else {
					require.NoError(t, os.Symlink(os.DevNull, taken)) // which can be written, but not synced
				}
				s.applyVerdict(wire.Verdict{Job: j.jobID, Epoch: 1, Verdict: wire.Continue, Acked: acked}, true)
				time.Sleep(full)
				synctest.Wait()
				if durable {
					require.EqualValues(t, 5, j.spool.Last(), "the notice")
					require.NoError(t, os.Remove(taken))
					time.Sleep(time.Second)
					synctest.Wait()
				}
				require.Equal(t, last, j.spool.Last())
				require.Equal(t, last, j.finishedSeq)
				require.Len(t, s.heldJobs(), 1)
				if err := j.remove(); durable {
					require.NoError(t, err)
				}
			})
		})
	}
}

// supervisorWithLostJob returns a supervisor that found a job of an earlier one, which reported no end. The
// test waits for its tasks.
func supervisorWithLostJob(t *testing.T, dir string) (*Supervisor, *job) {
	id := events.NewID(time.Now())
	j := newJob(attemptKey{id.String(), 1}, id, dir)
	writeLostSpool(t, j)
	var err error
	j.spool, err = spool.Open(dir, func(spool.Record) {})
	require.NoError(t, err)
	j.processEnded, j.endMissing = true, true
	close(j.ended)
	s := &Supervisor{log: slog.New(slog.DiscardHandler), jobs: map[attemptKey]*job{j.attemptKey: j}, changed: make(chan struct{}),
		wake: make(chan struct{}, 1)}
	var tasks sync.WaitGroup
	t.Cleanup(tasks.Wait)
	s.inBackground = func(task func(context.Context)) { tasks.Go(func() { task(t.Context()) }) }
	return s, j
}
