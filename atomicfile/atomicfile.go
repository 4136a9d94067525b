// Package atomicfile writes files durably: after a crash, a reader finds the old content or the new,
// never a part of it. It also creates directories durably.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// TempSuffix ends the name of the temporary file that is left if the process dies: after the name of
// the file for [Write], after that and a random word for [Create].
const TempSuffix = ".next"

// Write creates or replaces a file and makes it durable. Only one process at a time may write a file.
func Write(path string, data []byte, perm fs.FileMode) error {
	temp := path + TempSuffix
	err := os.Remove(temp) // what a killed process left, or a link that somebody put there
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = write(temp, data, perm)
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// Create creates a file and makes it durable. Its error wraps [fs.ErrExist] if the file exists. Of
// several processes that create the same file one succeeds.
func Create(path string, data []byte, perm fs.FileMode) error {
	temp := path + "." + rand.Text() + TempSuffix
	err := write(temp, data, perm)
	if err == nil {
		err = os.Link(temp, path) // unlike a rename, fails if path exists
	}
	_ = os.Remove(temp)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

func write(path string, data []byte, perm fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// MkdirAll creates a directory and the parents that it needs, as [os.MkdirAll] does, and makes them
// durable.
func MkdirAll(path string, perm fs.FileMode) error {
	return mkdirAll(filepath.Clean(path), perm, SyncDir)
}

func mkdirAll(path string, perm fs.FileMode, sync func(dir string) error) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := mkdirAll(parent, perm, sync); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(path, perm); err != nil { // another process may have created it meanwhile
		return err
	}
	return sync(parent)
}

// SyncDir makes durable which names a directory has.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
