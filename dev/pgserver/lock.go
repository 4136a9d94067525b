package pgserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lock is an exclusive lock on a file that contains the owner's pid. The kernel releases it when
// the owner dies.
type lock struct{ file *os.File }

// acquire takes the lock without waiting. If another process has it, the error contains its pid.
func acquire(path string) (*lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("the folder is in use by process %s", owner(file))
	}
	if err == nil {
		err = writePID(file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &lock{file: file}, nil
}

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// owner returns the pid in the file. An owner that has just taken the lock may not have written it
// yet.
func owner(file *os.File) string {
	text, err := io.ReadAll(io.LimitReader(file, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return pid
	}
	return "(unknown)"
}

// release unlocks explicitly, because a child that is just being forked may have inherited the
// file.
func (l *lock) release() error {
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	return errors.Join(err, l.file.Close())
}
