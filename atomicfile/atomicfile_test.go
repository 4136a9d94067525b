package atomicfile_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
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

func TestFailedCreateLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	limitFileSize(t, 10)
	require.ErrorIs(t, atomicfile.Create(path, make([]byte, 20), 0o600), syscall.EFBIG)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoError(t, atomicfile.Create(path, make([]byte, 10), 0o600))
}

// limitFileSize makes writes fail that would make a file larger than size, as on a full disk.
func limitFileSize(t *testing.T, size uint64) {
	t.Helper()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	signal.Ignore(syscall.SIGXFSZ)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: before.Max}))
	t.Cleanup(func() {
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
		signal.Reset(syscall.SIGXFSZ)
	})
}

func TestConcurrentCreatesLeaveOneWholeFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	var created atomic.Int32
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			err := atomicfile.Create(path, bytes.Repeat([]byte{byte('a' + i)}, 1<<16), 0o600)
			if err == nil {
				created.Add(1)
				return
			}
			assert.ErrorIs(t, err, fs.ErrExist)
		})
	}
	all.Wait()
	require.Equal(t, int32(1), created.Load())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat(got[:1], 1<<16), got)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestMkdirAllSyncsParentOfEachNewDirectory(t *testing.T) {
	dir := t.TempDir()
	var synced []string
	sync := func(dir string) error {
		synced = append(synced, dir)
		return atomicfile.SyncDir(dir)
	}
	path := filepath.Join(dir, "a", "b")
	require.NoError(t, atomicfile.MkdirAllWith(path, 0o700, sync))
	require.Equal(t, []string{dir, filepath.Join(dir, "a")}, synced)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|0o700, info.Mode())
	require.NoError(t, atomicfile.MkdirAllWith(path, 0o700, sync))
	require.Len(t, synced, 2, "it existed")
	require.NoError(t, atomicfile.MkdirAll(filepath.Join(path, "c")+"/", 0o700))

	file := filepath.Join(path, "file")
	require.NoError(t, atomicfile.Create(file, nil, 0o600))
	require.ErrorIs(t, atomicfile.MkdirAll(file, 0o700), syscall.ENOTDIR)
	require.ErrorIs(t, atomicfile.MkdirAll(filepath.Join(file, "d"), 0o700), syscall.ENOTDIR)
}
