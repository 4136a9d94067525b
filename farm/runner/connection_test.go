//go:build linux

package runner

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/runner/executor"
	"svc/farm/runner/identity"
	"svc/farm/runner/spool"
	"svc/farm/wire"
)

// endedJob adds a job that has ended, whose artifacts are not uploaded. Its spool is that of an earlier
// supervisor. reported says whether the farm has its messages.
func (f *farm) endedJob(folder identity.Folder, reported bool) {
	id := events.NewID(time.Now())
	k := attemptKey{id.String(), 1}
	dir := folder.Path(identity.SpoolFolder, k.name())
	spooled, err := spool.Create(dir)
	require.NoError(f.t, err)
	list := []wire.Event{{Kind: wire.EventStarted}, {Kind: wire.EventFinished, Outcome: "succeeded", Artifacts: 1}}
	for _, e := range list {
		text, err := json.Marshal(executor.NewTimedEvent(e))
		require.NoError(f.t, err)
		_, err = spooled.Append(executor.KindEvent, text)
		require.NoError(f.t, err)
	}
	require.NoError(f.t, spooled.Close())
	text, err := json.Marshal(executor.Manifest{Epoch: 1, Files: []executor.ManifestFile{{ID: "f1", Name: "all", Path: "file"}}})
	require.NoError(f.t, err)
	require.NoError(f.t, os.WriteFile(filepath.Join(dir, manifestFileName), text, 0o600))
	f.jobs[k] = &farmJob{accepted: 1, files: map[string][]byte{}}
	if reported {
		f.jobs[k].last, f.jobs[k].events = int64(len(list)), list
	}
}

// While the service takes no artifacts, a runner holds more ended jobs than a hello has room for. The service
// gets the end of each on the first connection, and running jobs continue on the next one.
func TestMoreJobsThanAHelloLists(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	const ended, running = wire.MaxHeld + 40, 4
	for i := range ended {
		f.endedJob(folder, i%2 == 0)
	}
	f.uploading = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "3600")
		refuseWith(w, 429, "artifact_volume_exceeded")
		return true
	}
	r := start(t, folder, reconnectAtOnce)
	require.Eventually(t, f.check(func() bool { return len(f.hellos) > 0 }), waitLimit, time.Millisecond)
	require.Eventually(t, func() bool {
		n := 0
		for _, j := range r.s.status().Jobs {
			if j.State == "uploading" {
				n++
			}
		}
		return n == ended
	}, waitLimit, 10*time.Millisecond)
	f.mu.Lock()
	require.Len(t, f.hellos, 1)
	require.Empty(t, f.problems)
	f.mu.Unlock()

	var jobs []attemptKey
	for range running {
		jobs = append(jobs, f.assign(wire.Assign{Steps: steps("echo ready; while [ ! -e ../go ]; do sleep 0.05; done; echo end")}))
	}
	for _, k := range jobs {
		require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	}
	f.cutAll()
	require.Eventually(t, f.check(func() bool { return len(f.hellos) == 2 }), waitLimit, time.Millisecond)
	for _, k := range jobs {
		require.NoError(t, os.WriteFile(folder.Path(identity.WorkFolder, k.name(), "go"), nil, 0o600))
		require.Equal(t, "succeeded", f.ended(k).Outcome)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.hellos[1].Held, wire.MaxHeld)
	require.Len(t, f.hellos, 2)
}

// Running jobs come first in a hello and in a heartbeat, since nothing else can be sent of jobs that a hello does
// not list, and the leases of jobs that no heartbeat lists end.
func TestRunningJobsAreListedFirst(t *testing.T) {
	t.Parallel()
	s := &Supervisor{jobs: map[attemptKey]*job{}}
	ranks := map[*job]int{}
	add := func(rank int, change func(*job)) {
		for n := range 20 {
			j := newJob(attemptKey{fmt.Sprint("job ", rank), n}, events.ID{}, "")
			change(j)
			s.jobs[j.attemptKey], ranks[j] = j, rank
		}
	}
	add(0, func(*job) {})
	add(1, func(j *job) { j.finishedSeq = 3 })
	add(2, func(j *job) { j.finishedSeq, j.finishing = 3, true })
	list := s.jobsToList()
	require.Len(t, list, 60)
	require.True(t, slices.IsSortedFunc(list, func(a, b *job) int { return ranks[a] - ranks[b] }))
}
