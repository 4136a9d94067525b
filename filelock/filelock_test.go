package filelock_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/filelock"
)

func TestLockIsHeldUntilUnlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := filelock.Try(path)
	require.NoError(t, err)
	_, err = filelock.Try(path)
	var held *filelock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, strconv.Itoa(os.Getpid()), held.PID)
	require.NoError(t, first.Unlock())
	second, err := filelock.Try(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, 0))
	_, err = filelock.Try(path)
	require.EqualError(t, err, "process unknown holds the lock")
	require.NoError(t, second.Unlock())
	_, err = filelock.Try(filepath.Join(path, "no", "folder"))
	require.Error(t, err)
}

func TestLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "precious")
	require.NoError(t, os.WriteFile(target, []byte("content"), 0o600))
	link := filepath.Join(dir, "lock")
	require.NoError(t, os.Symlink(target, link))
	_, err := filelock.Try(link)
	require.ErrorIs(t, err, syscall.ELOOP)
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "content", string(text))
}

// A file that cannot be truncated stands for a full disk.
func TestLockIsHeldWithoutProcessID(t *testing.T) {
	lock, err := filelock.Try(os.DevNull)
	require.NoError(t, err)
	_, err = filelock.Try(os.DevNull)
	require.EqualError(t, err, "process unknown holds the lock")
	require.NoError(t, lock.Unlock())
}

func TestShare(t *testing.T) {
	dir := t.TempDir()
	first, err := filelock.Share(dir)
	require.NoError(t, err)
	second, err := filelock.Share(dir)
	require.NoError(t, err)
	require.NoError(t, first.Unlock())
	_, err = filelock.TryExclusive(dir)
	var held *filelock.HeldError
	require.ErrorAs(t, err, &held)
	require.NoError(t, second.Unlock())
	first, err = filelock.TryExclusive(dir)
	require.NoError(t, err)
	require.NoError(t, first.Unlock())
	_, err = filelock.Share(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
