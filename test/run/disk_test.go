//go:build linux

package run

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// diskNotFilled begins the message where no file system may be mounted.
const diskNotFilled = "THE DISK IS NOT FILLED: "

// A disk is a file system in memory that can be shrunk to what is on it.
type disk struct{ folder string }

// newDisk mounts a disk on a folder until this process ends. It returns nil where mounting is
// forbidden.
func newDisk(t *testing.T, folder string) *disk {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o700))
	if os.Getenv(noMountsVar) != "" {
		t.Log(diskNotFilled + "this user may have no mounts of its own")
		return nil
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "mode=0700,size="+ampleSize); err != nil {
		t.Log(diskNotFilled + "mount: " + err.Error())
		return nil
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(folder, 0)) })
	return &disk{folder}
}

const ampleSize = "4g" // memory is allocated only for what is used

// fill shrinks the disk until it is full. The kernel refuses a size below what PostgreSQL has
// written meanwhile; fill then tries again.
func (d *disk) fill() (err error) {
	for range 100 {
		var is syscall.Statfs_t
		if err := syscall.Statfs(d.folder, &is); err != nil {
			return fmt.Errorf("look at %s: %w", d.folder, err)
		}
		if err = d.resize(fmt.Sprint((is.Blocks - is.Bfree) * uint64(is.Bsize))); !errors.Is(err, syscall.EINVAL) {
			return err
		}
	}
	return err
}

func (d *disk) enlarge() error { return d.resize(ampleSize) }

func (d *disk) resize(size string) error {
	if err := syscall.Mount("tmpfs", d.folder, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
		return fmt.Errorf("resize %s to %s: %w", d.folder, size, err)
	}
	return nil
}
