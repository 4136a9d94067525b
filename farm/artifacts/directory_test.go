package artifacts_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/artifacts"
)

func open(t *testing.T, dir string) *artifacts.Directory {
	t.Helper()
	d, err := artifacts.OpenDirectory(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func put(t *testing.T, s artifacts.Store, key, text string) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), key, int64(len(text)), strings.NewReader(text)))
}

func get(t *testing.T, s artifacts.Store, key string, offset int64) string {
	t.Helper()
	r, err := s.Open(t.Context(), key, offset)
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return string(text)
}

func names(t *testing.T, s artifacts.Store, folder string) (list []string) {
	t.Helper()
	objects, err := s.List(t.Context(), folder)
	require.NoError(t, err)
	for _, o := range objects {
		list = append(list, o.Name)
	}
	return list
}

// files returns the paths of all files below a directory.
func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	}))
	return list
}

func TestDirectoryKeepsObjects(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir), open(t, dir)
	put(t, d, "w/j/b", "hello")
	put(t, other, "w/j/a", "")
	put(t, d, "w/k/a", strings.Repeat("x", 1<<20))
	require.Equal(t, []string{"a", "b"}, names(t, d, "w/j"))
	require.Equal(t, "hello", get(t, other, "w/j/b", 0))
	require.Equal(t, "lo", get(t, other, "w/j/b", 3))
	require.Empty(t, get(t, other, "w/j/b", 5))
	require.Empty(t, names(t, d, "w/none"))

	var folders []string
	for folder, err := range d.Folders(t.Context()) {
		require.NoError(t, err)
		folders = append(folders, folder)
	}
	require.ElementsMatch(t, []string{"w/j", "w/k"}, folders)

	require.ErrorIs(t, d.Put(t.Context(), "w/j/b", 5, strings.NewReader("other")), artifacts.ErrExists)
	require.Equal(t, "hello", get(t, d, "w/j/b", 0))
	require.NoError(t, d.Remove(t.Context(), "w/j", "b", "none"))
	_, err := d.Open(t.Context(), "w/j/b", 0)
	require.ErrorIs(t, err, artifacts.ErrMissing)
	require.Len(t, files(t, dir), 2)
}

// Only complete objects exist, and failed puts leave nothing behind.
func TestDirectoryPutsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	broken := errors.New("broken")
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, c := range map[string]struct {
		ctx context.Context
		r   io.Reader
	}{
		"too few":           {t.Context(), strings.NewReader("four")},
		"too many":          {t.Context(), strings.NewReader("sixsix")},
		"read error":        {t.Context(), io.MultiReader(strings.NewReader("fi"), iotest.ErrReader(broken))},
		"unexpected EOF":    {t.Context(), io.MultiReader(strings.NewReader("fives"), iotest.ErrReader(io.ErrUnexpectedEOF))},
		"cancelled context": {gone, strings.NewReader("fives")},
	} {
		require.Error(t, d.Put(c.ctx, "w/j/a", 5, c.r), name)
		require.Empty(t, files(t, dir), name)
	}
}

func TestDirectoryRefusesMalformedKeys(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "store")
	require.NoError(t, os.Mkdir(dir, 0o700))
	d := open(t, dir)
	for _, key := range []string{
		"", "a", "a/b", "a/b/", "a/b/c/d", "../a/b", "a/../b", "a/b/..", "a/b/../c", "/a/b", "/a/b/c", "a//b", "A/b/c", "a/b/C",
		"a/b/.c", "a/b/c\x00", `a/b/c\d`,
		"a/b/" + strings.Repeat("c", 129), "a\n/b/c", "a/b/c\n",
	} {
		require.Error(t, d.Put(t.Context(), key, 0, strings.NewReader("")), "%q", key)
		_, err := d.Open(t.Context(), key, 0)
		require.Error(t, err, "%q", key)
		require.NotErrorIs(t, err, artifacts.ErrMissing, "%q", key)
	}
	for _, folder := range []string{"", ".", "..", "a", "a/..", "../a", "/a/b", "a/b/c", "a/B"} {
		_, err := d.List(t.Context(), folder)
		require.Error(t, err, "%q", folder)
		require.Error(t, d.Clean(t.Context(), folder, time.Now()), "%q", folder)
		require.Error(t, d.Remove(t.Context(), folder, "x"), "%q", folder)
	}
	require.Empty(t, files(t, outside))
}

// Links in the directory lead nobody out of it.
func TestDirectoryFollowsNoLinkOutside(t *testing.T) {
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	dir := filepath.Join(outside, "store")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "w", "j"), 0o700))
	d := open(t, dir)
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "w", "j", "a")))
	require.NoError(t, os.Symlink("../../../secret", filepath.Join(dir, "w", "j", "b")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "w", "k")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "up")))
	for _, key := range []string{"w/j/a", "w/j/b", "w/k/secret", "up/store/secret"} {
		_, err := d.Open(t.Context(), key, 0)
		require.Error(t, err, key)
	}
	require.Empty(t, names(t, d, "w/j"))
	require.Error(t, d.Put(t.Context(), "w/k/new", 1, strings.NewReader("n")))
	require.ErrorIs(t, d.Put(t.Context(), "w/j/a", 1, strings.NewReader("n")), artifacts.ErrExists)
	require.NoError(t, d.Remove(t.Context(), "w/j", "a", "b"))
	require.FileExists(t, filepath.Join(outside, "secret"))
	for folder, err := range d.Folders(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, "w/j", folder)
	}
}

// Whatever step the process is killed at, the object exists completely or not at all.
func TestDirectorySurvivesKillAtAnyStep(t *testing.T) {
	text := strings.Repeat("0123456789", 100_000)
	for at := 1; ; at++ {
		dir := t.TempDir()
		d := open(t, dir)
		trap := &artifacts.Trap{At: at}
		err := d.Trapped(trap).Put(t.Context(), "w/j/a", int64(len(text)), strings.NewReader(text))
		if err == nil {
			require.Greater(t, at, 12, "it has steps")
			require.Less(t, trap.Done, at)
			break
		}
		require.ErrorIs(t, err, artifacts.ErrKilled)
		if len(names(t, d, "w/j")) == 0 {
			put(t, d, "w/j/a", text)
		}
		require.Equal(t, text, get(t, d, "w/j/a", 0), "killed at step %d", at)
		require.NoError(t, d.Clean(t.Context(), "w/j", time.Now().Add(time.Minute)))
		require.Equal(t, []string{filepath.Join(dir, "w", "j", "a")}, files(t, dir))
	}
}

// If the disk is full, or any step fails, Put returns the error and removes what it began.
func TestDirectoryOnFailingDisk(t *testing.T) {
	text := strings.Repeat("0123456789", 100_000)
	for at := 1; ; at++ {
		dir := t.TempDir()
		d := open(t, dir)
		err := d.Trapped(&artifacts.Trap{At: at, Once: syscall.ENOSPC}).Put(t.Context(), "w/j/a", int64(len(text)), strings.NewReader(text))
		if err == nil {
			break
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		if list := names(t, d, "w/j"); len(list) == 0 {
			put(t, d, "w/j/a", text)
		}
		require.Equal(t, text, get(t, d, "w/j/a", 0))
		require.LessOrEqual(t, len(files(t, dir)), 2)
	}
}

func TestFirstOfConcurrentPutsWins(t *testing.T) {
	dir := t.TempDir()
	stores := []*artifacts.Directory{open(t, dir), open(t, dir)}
	var group sync.WaitGroup
	stored := make(chan string, 32)
	for i := range 32 {
		group.Go(func() {
			text := strings.Repeat(string(rune('a'+i%26)), 1000+i)
			err := stores[i%2].Put(context.Background(), "w/j/a", int64(len(text)), strings.NewReader(text))
			if err == nil {
				stored <- text
			} else if !errors.Is(err, artifacts.ErrExists) {
				stored <- err.Error()
			}
		})
	}
	group.Wait()
	close(stored)
	var winners []string
	for text := range stored {
		winners = append(winners, text)
	}
	require.Len(t, winners, 1)
	require.Equal(t, winners[0], get(t, stores[0], "w/j/a", 0))
	require.Len(t, files(t, dir), 1)
}

// A put creates the folder again if another process removes it while empty.
func TestPutRecreatesRemovedFolder(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	for range 100 {
		var cleaning sync.WaitGroup
		cleaning.Go(func() { _ = os.Remove(filepath.Join(dir, "w/j")) }) // as Clean does
		put(t, d, "w/j/a", "text")
		require.Equal(t, "text", get(t, d, "w/j/a", 0))
		cleaning.Wait()
		require.NoError(t, d.Remove(t.Context(), "w/j", "a"))
	}
}

func TestCleanRemovesOldEmptyFolder(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	put(t, d, "w/j/a", "text")
	require.NoError(t, d.Clean(t.Context(), "w/j", time.Now().Add(time.Hour)))
	require.Equal(t, []string{"a"}, names(t, d, "w/j"))
	require.NoError(t, d.Remove(t.Context(), "w/j", "a"))
	require.NoError(t, d.Clean(t.Context(), "w/j", time.Now().Add(-time.Hour)))
	require.DirExists(t, filepath.Join(dir, "w/j"))
	require.NoError(t, d.Clean(t.Context(), "w/j", time.Now().Add(time.Hour)))
	require.NoDirExists(t, filepath.Join(dir, "w/j"))
	require.NoError(t, d.Clean(t.Context(), "w/j", time.Now()))
}

func TestCleanRemovesOnlyOldFiles(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	put(t, d, "w/j/a", "text")
	old, young := filepath.Join(dir, "w/j/.put-1"), filepath.Join(dir, "w/j/.put-2")
	for _, name := range []string{old, young} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	now := time.Now()
	require.NoError(t, os.Chtimes(old, now, now.Add(-2*time.Hour)))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "w/j/a"), now, now.Add(-2*time.Hour)))
	require.NoError(t, d.Clean(t.Context(), "w/j", now.Add(-time.Hour)))
	require.Equal(t, []string{young, filepath.Join(dir, "w/j/a")}, files(t, dir))
}

func TestOpenDirectoryChecksWritable(t *testing.T) {
	_, err := artifacts.OpenDirectory(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = artifacts.OpenDirectory(file)
	require.Error(t, err)
	dir := t.TempDir()
	open(t, dir)
	require.Empty(t, files(t, dir))
}
