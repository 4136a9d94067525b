package pgserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"svc/filelock"
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
	lock, err := filelock.Try(dir + ".lock")
	for held := (*filelock.HeldError)(nil); errors.As(err, &held); lock, err = filelock.Try(dir + ".lock") {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
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
