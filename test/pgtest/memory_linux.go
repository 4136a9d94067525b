package pgtest

import (
	"os"
	"syscall"
)

// memory is a folder in memory with 1 GiB free, "" without one.
func memory() string {
	const folder = "/dev/shm"
	var space syscall.Statfs_t
	if syscall.Statfs(folder, &space) != nil || space.Bavail*uint64(space.Bsize) < 1<<30 {
		return ""
	}
	probe, err := os.MkdirTemp(folder, folderPrefix)
	if err != nil {
		return ""
	}
	if os.Remove(probe) != nil {
		return ""
	}
	return folder
}
