// Package filelock locks files and folders, so that only one process works with what belongs to them or
// changes it. The kernel releases a lock when the process dies.
package filelock

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// A HeldError says that another process holds a lock.
type HeldError struct{ PID string } // "unknown" if the process has not written it, as for a folder

func (e *HeldError) Error() string { return "process " + e.PID + " holds the lock" }

// A Lock is a lock that this process holds.
type Lock struct{ file *os.File }

// Try locks a file, which it creates if needed, without waiting, and writes the process id to it if it
// can. Its error is a [*HeldError] if another process holds the lock. A symbolic link at path is refused.
func Try(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	l, err := lock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		writePID(file)
	}
	return l, err
}

// Share waits for a shared lock of an existing file or folder, which several processes can hold at once.
func Share(path string) (*Lock, error) { return lockExisting(path, syscall.LOCK_SH) }

// TryExclusive locks an existing file or folder against [Share], without waiting. Its error is a
// [*HeldError] if another process holds a lock of either kind.
func TryExclusive(path string) (*Lock, error) {
	return lockExisting(path, syscall.LOCK_EX|syscall.LOCK_NB)
}

func lockExisting(path string, how int) (*Lock, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return lock(file, how)
}

// lock locks a file, and closes it if that fails.
func lock(file *os.File, how int) (*Lock, error) {
	err := error(syscall.EINTR)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(file.Fd()), how)
	}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = &HeldError{readPID(file)}
	case err != nil:
		err = fmt.Errorf("lock %s: %w", file.Name(), err)
	default:
		return &Lock{file}, nil
	}
	_ = file.Close()
	return nil, err
}

// writePID tells other processes who holds the lock. It may fail, for example if the disk is full: the
// lock is held nevertheless.
func writePID(file *os.File) {
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
}

func readPID(file *os.File) string {
	text, _ := io.ReadAll(io.LimitReader(file, 20))
	return cmp.Or(strings.TrimSpace(string(text)), "unknown")
}

// Unlock releases the lock, even if a program that is being started has inherited the file for a
// moment.
func (l *Lock) Unlock() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
