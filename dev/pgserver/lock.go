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

// lock is an exclusive lock on a file that holds the owner's pid. The kernel
// gives it up when the owner dies, however it dies.
type lock struct{ file *os.File }

// acquire takes the lock, or says at once which process has it.
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
		err = sign(file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &lock{file: file}, nil
}

func sign(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// owner is the pid in the file; an owner that has just taken the lock may not
// have written it yet.
func owner(file *os.File) string {
	text, err := io.ReadAll(io.LimitReader(file, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return pid
	}
	return "(unknown)"
}

// release unlocks explicitly: a child that another goroutine is just forking
// may hold a copy of the file for a moment.
func (l *lock) release() error {
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	return errors.Join(err, l.file.Close())
}
