//go:build linux

package runner

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/runner/spool"
	"svc/farm/wire"
)

// The verdict done may arrive between a job's last report and the end of its process. The files
// must stay until they are uploaded.
func TestFilesOfEndedJobStayUntilUploaded(t *testing.T) {
	t.Parallel()
	id := events.NewID(time.Now())
	j := newJob(attemptKey{id.String(), 1}, id, filepath.Join(t.TempDir(), "job"))
	var err error
	j.spool, err = spool.Create(j.dir)
	require.NoError(t, err)
	s := &Supervisor{log: slog.New(slog.DiscardHandler), jobs: map[attemptKey]*job{j.attemptKey: j}, changed: make(chan struct{})}
	var tasks sync.WaitGroup
	s.inBackground = func(task func(context.Context)) { tasks.Go(func() { task(t.Context()) }) }
	require.True(t, j.isRunning())
	j.finishedSeq = 7
	s.handleDone(j, wire.Verdict{Job: j.jobID, Epoch: 1, Verdict: wire.Done, Artifacts: true})
	require.False(t, j.isDropped())
	require.False(t, j.inHeartbeats(), "it is being settled")
	require.DirExists(t, j.dir)
	close(j.ended) // it has no files
	tasks.Wait()
	require.NoDirExists(t, j.dir)
}
