//go:build linux

package runner

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/runner/spool"
	"svc/farm/wire"
)

// A heartbeat's verdict may come between what a job says last and the end of its process.
// Its files stay until they are uploaded.
func TestTheFilesOfAJobStayThatHasSaidItsEnd(t *testing.T) {
	t.Parallel()
	id := events.NewID(time.Now())
	j := newJob(key{id.String(), 1}, id, filepath.Join(t.TempDir(), "job"))
	var err error
	j.spool, err = spool.Create(j.dir)
	require.NoError(t, err)
	s := &Supervisor{log: slog.New(slog.DiscardHandler), jobs: map[key]*job{j.key: j}, changed: make(chan struct{})}
	require.True(t, j.runs())
	j.finished = 7
	s.done(j, wire.Verdict{Job: j.job, Epoch: 1, Verdict: wire.Done, Artifacts: true})
	require.False(t, j.isDropped())
	require.False(t, j.beats(), "it is being settled")
	require.DirExists(t, j.dir)
	close(j.ended) // it has no files
	s.owned.Wait()
	require.NoDirExists(t, j.dir)
}
