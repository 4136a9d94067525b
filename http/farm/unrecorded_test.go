package farm_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/artifacts"
	"svc/projections/farmviews"
)

// A replica dies after it sealed a file and before it recorded the event. The file is removed once
// the upload is abandoned, and recorded files stay.
func TestUnrecordedFileIsRemoved(t *testing.T) {
	u := newUpload(t, 2)
	texts := [][]byte{[]byte("a"), []byte("b")}
	u.send(t, u.a, manifestPart(u.manifest(texts...)), part{"f0.0", texts[0]}).is(t, 200, "")
	store := u.b.server.Artifacts
	half, err := artifacts.Resume(t.Context(), store, artifacts.Job{Workspace: u.workspace, ID: u.job, Epoch: u.epoch}, u.manifest(texts...))
	require.NoError(t, err)
	require.NoError(t, half.Receive(t.Context(), "f1.0", bytes.NewReader(texts[1])))
	require.Len(t, half.Sealed(), 2)

	view := farmviews.AbandonedArtifacts{DB: u.db, Log: u.a.log}
	sweep := func() int {
		n, err := artifacts.SweepUnrecorded(t.Context(), store, view.Stored, time.Now().Add(2*artifacts.UnrecordedRetention),
			time.Nanosecond)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, sweep(), "it may go on")
	_, err = u.a.commands.AbandonArtifacts(t.Context(), u.abandonment())
	require.NoError(t, err)
	require.Equal(t, 2, sweep(), "a chunk and its seal")
	require.Zero(t, sweep())
	require.Equal(t, map[string][]byte{"dist/0": []byte("a")}, u.readable(t))

	keep, ok, err := view.Stored(t.Context(), u.workspace, u.job)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, keep, 1)
	_, ok, err = view.Stored(t.Context(), events.NewID(time.Now()), u.job)
	require.NoError(t, err)
	require.False(t, ok, "another workspace's")
	_, err = u.db.Exec(t.Context(), `
		update events set kind = 'job.of_a_newer_build' where workspace_id = $1 and stream = $2
			and kind = 'job.artifact_stored'`, u.workspace, u.job)
	require.NoError(t, err)
	_, _, err = view.Stored(t.Context(), u.workspace, u.job)
	require.ErrorContains(t, err, "unknown kind", "an event that nobody can read may name a file")
}
