package artifacts_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/artifacts"
)

// uploadAll uploads complete files and returns their ids.
func uploadAll(t *testing.T, s artifacts.Store, texts ...[]byte) (ids []events.ID) {
	t.Helper()
	u := resume(t, s, manifest(texts...))
	require.NoError(t, u.SealComplete(t.Context()))
	for i, text := range texts {
		for _, n := range u.States()[i].Missing {
			require.NoError(t, send(t.Context(), u, i, text, int(n)))
		}
	}
	for _, a := range u.Sealed() {
		ids = append(ids, a.ID)
	}
	require.Len(t, ids, len(texts))
	return ids
}

func TestReader(t *testing.T) {
	a := content(1, 2*chunk+100)
	s := open(t, t.TempDir())
	id := uploadAll(t, s, a)[0]
	r, err := artifacts.Open(t.Context(), s, job.Workspace, job.ID, id)
	require.NoError(t, err)
	require.EqualValues(t, len(a), r.Size())
	require.Equal(t, fileOf("f0", a).SHA256, r.SHA256())
	for _, at := range []int{0, chunk - 1, chunk, chunk + 1, 2*chunk - 50, 2 * chunk, len(a) - 1, len(a), 5} {
		offset, err := r.Seek(int64(at), io.SeekStart)
		require.NoError(t, err)
		require.EqualValues(t, at, offset)
		got, err := io.ReadAll(io.LimitReader(r, 120))
		require.NoError(t, err)
		require.Equal(t, a[at:min(at+120, len(a))], append([]byte{}, got...), "at %d", at)
	}
	end, err := r.Seek(-10, io.SeekEnd)
	require.NoError(t, err)
	require.EqualValues(t, len(a)-10, end)
	_, err = r.Seek(-int64(len(a)), io.SeekCurrent)
	require.Error(t, err)
	require.NoError(t, r.Close())

	small := content(2, 1000)
	r, err = artifacts.Open(t.Context(), s, job.Workspace, job.ID, uploadAll(t, s, small)[0])
	require.NoError(t, err)
	require.NoError(t, iotest.TestReader(r, small))
}

func TestOpenFindsNothingOfAnotherJob(t *testing.T) {
	s := open(t, t.TempDir())
	id := uploadAll(t, s, []byte("a"))[0]
	for _, c := range [][3]events.ID{{{9}, job.ID, id}, {job.Workspace, {9}, id}, {job.Workspace, job.ID, {9}}} {
		_, err := artifacts.Open(t.Context(), s, c[0], c[1], c[2])
		require.ErrorIs(t, err, artifacts.ErrMissing)
	}
}

// A missing or truncated chunk is an error, and never the end of the file.
func TestReaderOfADamagedStore(t *testing.T) {
	a := content(1, chunk+100)
	for name, damage := range map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 10) },
		"gone":      os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			id := uploadAll(t, s, a)[0]
			chunks, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.0.1."+strings.Repeat("?", 16)))
			require.NoError(t, err)
			require.Len(t, chunks, 1)
			require.NoError(t, damage(chunks[0]))
			r, err := artifacts.Open(t.Context(), s, job.Workspace, job.ID, id)
			require.NoError(t, err)
			_, err = io.ReadAll(r)
			require.Error(t, err)
			require.NoError(t, r.Close())
		})
	}
}

func TestOpenOfADamagedSeal(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	id := uploadAll(t, s, []byte("a"))[0]
	path := filepath.Join(dir, job.Workspace.String(), job.ID.String(), id.String())
	for _, text := range []string{"", "{", "[]", `{"size":10,"chunkBytes":5,"chunks":[]}`, `{"size":-1,"chunkBytes":0,"chunks":["a"]}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := artifacts.Open(t.Context(), s, job.Workspace, job.ID, id)
		require.Error(t, err, text)
		require.NotErrorIs(t, err, artifacts.ErrMissing)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ids := uploadAll(t, s, []byte("kept"), nil)
	a := content(3, 2*chunk)
	m := manifest(a)
	half := resume(t, s, m)
	require.NoError(t, send(t.Context(), half, 0, a, 0))
	require.NoError(t, os.WriteFile(filepath.Join(dir, job.Workspace.String(), job.ID.String(), ".put-1"), nil, 0o600))
	before := len(files(t, dir))

	n, err := new(artifacts.Swept).Sweep(t.Context(), s, time.Now().Add(events.ArtifactUploadWindow), time.Nanosecond)
	require.NoError(t, err)
	require.Zero(t, n, "an upload may still go on")
	require.Len(t, files(t, dir), before)

	n, err = new(artifacts.Swept).Sweep(t.Context(), s, time.Now().Add(artifacts.ChunkRetention+time.Minute), time.Nanosecond)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Len(t, files(t, dir), before-2, "the chunk and what a put left")
	require.Equal(t, []byte("kept"), stored(t, s, ids[0]))
	require.Empty(t, stored(t, s, ids[1]))
	require.Equal(t, []int64{0, 1}, resume(t, s, m).States()[0].Missing)
}

// A folder that cannot be read is left as it is, and the others are swept.
func TestSweepContinuesAfterError(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "w/j/broken", "{")
	put(t, s, "w/j/broken.0.0.a", "chunk")
	put(t, s, "w/k/x.0.0.a", "chunk")
	put(t, s, "w/k/x.0", "")
	n, err := new(artifacts.Swept).Sweep(t.Context(), s, time.Now().Add(24*time.Hour), time.Nanosecond)
	require.Error(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, []string{"broken", "broken.0.0.a"}, names(t, s, "w/j"))
	require.NoDirExists(t, filepath.Join(dir, "w", "k"))
}
