package artifacts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/farm/artifacts"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A file is read by its path, as the log names it.
func TestReadFile(t *testing.T) {
	t.Parallel()
	log := store.New(pgtest.New(t), nil, func(events.ID, int64) {})
	t.Cleanup(log.Close)
	files := open(t, t.TempDir())
	first, second := []byte("first"), []byte("second")
	u := resume(t, files, manifest(first, second))
	require.NoError(t, send(t.Context(), u, 0, first, 0))
	require.NoError(t, send(t.Context(), u, 1, second, 0))
	version := 0
	record := func(list ...events.Event) {
		t.Helper()
		_, err := log.Append(t.Context(), &events.Commit{
			Workspace: job.Workspace, At: time.Now(), Writes: []events.Write{{Stream: job.ID, Version: version, Events: list}},
		})
		require.NoError(t, err)
		version += len(list)
	}
	read := func(path string, limit int64) (string, error) {
		text, err := artifacts.ReadFile(t.Context(), files, log, job.Workspace, job.ID, path, limit)
		return string(text), err
	}
	_, err := read("dist/f0", 100)
	require.ErrorIs(t, err, artifacts.ErrMissing, "it is stored, but the log does not say so")
	for i, a := range artifactsOf(u) {
		file := events.JobArtifact{ID: a.ID, Name: a.Name, Path: a.Path, Size: a.Size, SHA256: a.SHA256}
		if i == 1 {
			file.SHA256 = artifactsOf(u)[0].SHA256
		}
		record(events.JobArtifactStored{Epoch: 1, File: file})
	}
	text, err := read("dist/f0", 5)
	require.NoError(t, err)
	require.Equal(t, "first", text)
	_, err = read("dist/f0", 4)
	require.ErrorIs(t, err, artifacts.ErrFileTooLarge)
	_, err = read("dist/f1", 100)
	require.ErrorContains(t, err, "not what the runner has sent")
	_, err = read("dist/f2", 100)
	require.ErrorIs(t, err, artifacts.ErrMissing)
	_, err = artifacts.ReadFile(t.Context(), files, log, events.ID{9}, job.ID, "dist/f0", 100)
	require.ErrorIs(t, err, artifacts.ErrMissing, "of another workspace")
	record(events.JobArtifactsRemoved{Epoch: 1, Files: 2, Reason: "age"})
	_, err = read("dist/f0", 100)
	require.ErrorIs(t, err, artifacts.ErrMissing)
}
