package atomicfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/atomicfile"
)

func TestWriteReplacesAndLeavesNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	elsewhere := filepath.Join(t.TempDir(), "b")
	require.NoError(t, os.Symlink(elsewhere, path+atomicfile.TempSuffix))
	for _, text := range []string{"old", "new"} {
		require.NoError(t, atomicfile.Write(path, []byte(text), 0o600))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoFileExists(t, elsewhere, "a link is not followed")
}

// A directory cannot be replaced by a file.
func TestFailedWriteLeavesNoTemporaryFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.Mkdir(path, 0o700))
	require.ErrorContains(t, atomicfile.Write(path, nil, 0o600), "replace "+path)
	require.NoFileExists(t, path+atomicfile.TempSuffix)
	require.ErrorIs(t, atomicfile.Write(filepath.Join(path, "b", "c"), nil, 0o600), fs.ErrNotExist)
}

func TestCreateNeverReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, atomicfile.Create(path, []byte("first"), 0o600))
	require.ErrorIs(t, atomicfile.Create(path, []byte("second"), 0o600), fs.ErrExist)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "first", string(got))
	require.ErrorIs(t, atomicfile.SyncDir(path+"-none"), fs.ErrNotExist)
}
