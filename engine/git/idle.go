package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"svc/filelock"
)

// RemoveIdle removes the mirrors that were last used before a time, also those in folders of processes that have ended.
func (m *Mirrors) RemoveIdle(ctx context.Context, before time.Time) error {
	err := m.removeIdle(ctx, m.folder, before)
	for n := range maxFolders {
		folder := filepath.Join(filepath.Dir(m.folder), strconv.Itoa(n))
		if _, missing := os.Stat(folder); folder == m.folder || missing != nil {
			continue
		}
		lock, held := filelock.Try(folder + ".lock")
		if held != nil {
			continue // by a process that removes its own
		}
		err = errors.Join(err, m.removeIdle(ctx, folder, before), lock.Unlock())
	}
	return err
}

func (m *Mirrors) removeIdle(ctx context.Context, folder string, before time.Time) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("list mirrors: %w", err)
	}
	for _, entry := range entries {
		id, isMirror := strings.CutSuffix(entry.Name(), ".git")
		if !isMirror {
			continue
		}
		leave, waited := m.enter(ctx, id)
		if waited != nil {
			return errors.Join(err, waited)
		}
		err = errors.Join(err, removeOlder(filepath.Join(folder, entry.Name()), before))
		leave()
	}
	return err
}

// removeOlder removes a mirror, whose time [Mirrors.Work] sets.
func removeOlder(dir string, before time.Time) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !info.ModTime().Before(before):
		return nil
	case err == nil:
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("remove an idle mirror: %w", err)
	}
	return nil
}
