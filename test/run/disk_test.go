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

// noDisk is what is said where no file system may be mounted.
const noDisk = "THE DISK IS NOT FILLED: "

// A disk is a file system in memory that can be made as small as what is on it.
type disk struct{ folder string }

// newDisk mounts a disk in a folder, for the life of this process. It is nil
// where that is forbidden.
func newDisk(t *testing.T, folder string) *disk {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o700))
	if os.Getenv(noMounts) != "" {
		t.Log(noDisk + "this user may have no mounts of its own")
		return nil
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "mode=0700,size="+roomy); err != nil {
		t.Log(noDisk + "mount: " + err.Error())
		return nil
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(folder, 0)) })
	return &disk{folder}
}

const roomy = "4g" // of which only what is used takes memory

// fill leaves no byte free. PostgreSQL may write between the look and the resize,
// which is then refused.
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

func (d *disk) free() error { return d.resize(roomy) }

func (d *disk) resize(size string) error {
	if err := syscall.Mount("tmpfs", d.folder, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
		return fmt.Errorf("resize %s to %s: %w", d.folder, size, err)
	}
	return nil
}
