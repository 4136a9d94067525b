package pgserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// cached returns a folder for downloaded programs: in the user's cache, or in the machine's if the
// account cannot enter the user's.
func (a account) cached(name string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "svc-postgres")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if a.cannotEnter(dir) {
		dir = "/var/cache/svc-postgres"
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, name), nil
}

// fillOnce fills a folder if it does not exist. Other processes that need it wait. An interrupted fill
// leaves no folder.
func fillOnce(ctx context.Context, dir string, fill func(fresh string) error) error {
	file, err := os.OpenFile(dir+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := lockFile(ctx, file, syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	fresh := dir + ".new"
	if err := errors.Join(os.RemoveAll(fresh), os.Mkdir(fresh, 0o755)); err != nil {
		return err
	}
	if err := fill(fresh); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	return os.Rename(fresh, dir)
}

// lockFile locks a file until it is closed. waited reports whether another process had the lock.
func lockFile(ctx context.Context, file *os.File, how int) (waited bool, err error) {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return waited, err
		}
		waited = true
		select {
		case <-again.C:
		case <-ctx.Done():
			return waited, ctx.Err()
		}
	}
}
