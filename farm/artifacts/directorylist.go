package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"

	"svc/fault"
)

// List implements [Store].
func (d *Directory) List(_ context.Context, folder string) ([]Object, error) {
	var list []Object
	err := d.eachFile(folder, func(info fs.FileInfo) error {
		if info.Mode().IsRegular() && namePattern.MatchString(info.Name()) {
			list = append(list, Object{info.Name(), info.Size(), info.ModTime()})
		}
		return nil
	})
	return list, fault.Wrap(err, "list %s", folder)
}

// eachFile calls visit with each file of a folder in order of names. Files removed meanwhile are
// skipped.
func (d *Directory) eachFile(folder string, visit func(fs.FileInfo) error) error {
	if !folderPattern.MatchString(folder) {
		return errors.New("malformed folder")
	}
	entries, err := d.disk.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		info, gone := entry.Info()
		if errors.Is(gone, fs.ErrNotExist) {
			continue
		}
		if err := errors.Join(err, gone); err != nil {
			return err
		}
		if err := visit(info); err != nil {
			return err
		}
	}
	return err
}

// Folders implements [Store].
func (d *Directory) Folders(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		workspaces, err := d.disk.ReadDir(".")
		if err != nil {
			yield("", fmt.Errorf("list artifact store: %w", err))
			return
		}
		for _, workspace := range workspaces {
			jobs, err := d.disk.ReadDir(workspace.Name())
			if err != nil && !errors.Is(err, fs.ErrNotExist) && workspace.IsDir() {
				yield("", fmt.Errorf("list artifact store: %w", err))
				return
			}
			for _, job := range jobs {
				folder := workspace.Name() + "/" + job.Name()
				if ctx.Err() != nil || job.IsDir() && folderPattern.MatchString(folder) && !yield(folder, nil) {
					return
				}
			}
		}
	}
}

// Remove implements [Store].
func (d *Directory) Remove(_ context.Context, folder string, names ...string) error {
	for _, name := range names {
		key := folder + "/" + name
		if _, _, err := splitKey(key); err != nil {
			return fmt.Errorf("remove artifact: %w", err)
		}
		if err := d.disk.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", key, err)
		}
	}
	return nil
}

// Clean implements [Store].
func (d *Directory) Clean(_ context.Context, folder string, before time.Time) error {
	files := 0
	err := d.eachFile(folder, func(info fs.FileInfo) error {
		files++
		if !strings.HasPrefix(info.Name(), tempPrefix) || !info.ModTime().Before(before) {
			return nil
		}
		if err := d.disk.Remove(folder + "/" + info.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		files--
		return nil
	})
	if err != nil {
		return fmt.Errorf("clean %s: %w", folder, err)
	}
	if info, err := d.disk.Stat(folder); err == nil && files == 0 && info.ModTime().Before(before) {
		// Both fail if there is something else, such as what another process puts there.
		_ = d.disk.Remove(folder)
		_ = d.disk.Remove(path.Dir(folder))
	}
	return nil
}
