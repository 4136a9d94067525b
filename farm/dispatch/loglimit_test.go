package dispatch_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/wire"
)

func TestLogIsLimited(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	_, err := j.db.Exec(t.Context(), `update job_leases set log_bytes = $2 where job_id = $1`, j.job, wire.MaxLog-2)
	require.NoError(t, err)
	j.a.chunk(j.job, j.epoch, 3, wire.MaxLog-2, "ab")
	j.a.chunk(j.job, j.epoch, 4, wire.MaxLog, "c")
	j.a.chunk(j.job, j.epoch, 5, wire.MaxLog+1, "d")
	j.a.acked(5)
	size, err := j.r.logs.Size(t.Context(), j.ws, j.job, j.epoch)
	require.NoError(t, err)
	require.EqualValues(t, wire.MaxLog, size)
}

// A log is cut where its workspace has no more room, and the job continues. The log is not taken
// for one that was tampered with.
func TestLogsOfWorkspaceAreLimited(t *testing.T) {
	t.Parallel()
	room := len("one\ntwo\n")
	j := newRunning(t, func(c *dispatch.Config) {
		c.AdmitLog = func(_ events.ID, bytes int) bool {
			if bytes > room {
				return false
			}
			room -= bytes
			return true
		}
	})
	j.a.chunk(j.job, j.epoch, 3, 4, "two\n")
	j.a.chunk(j.job, j.epoch, 4, 8, "three\n")
	j.a.chunk(j.job, j.epoch, 5, 14, "x")
	j.a.acked(5)
	j.a.send(finished("one\ntwo\nthree\nx"), j.job, j.epoch, 6)
	j.a.acked(6)
	require.Equal(t, events.JobStateSucceeded, j.state(j.job))
	j.r.SweepOnce(t.Context())
	var sealed events.JobLogSealed
	var text []byte
	require.NoError(t, j.db.QueryRow(t.Context(), `select data from events where stream = $1 and kind = 'job.log_sealed'`, j.job).Scan(&text))
	require.NoError(t, json.Unmarshal(text, &sealed))
	require.EqualValues(t, len("one\ntwo\n"), sealed.Bytes)
	require.True(t, sealed.Truncated)
	require.Equal(t, "incomplete", sealed.Integrity)
}
