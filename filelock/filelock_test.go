package filelock_test

import (
	"os"
	"path/filepath"
	"strconv"
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
