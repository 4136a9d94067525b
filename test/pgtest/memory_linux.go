package pgtest

import (
	"os"
	"syscall"
)

// memoryFolder returns a writable folder in memory with at least 1 GiB free, or "".
func memoryFolder() string {
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
