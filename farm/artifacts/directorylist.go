package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"time"
)

// List returns the objects of a folder.
func (d *Directory) List(_ context.Context, folder string) ([]Object, error) {
	var list []Object
	err := d.each(folder, func(info fs.FileInfo) error {
		if info.Mode().IsRegular() && nameForm.MatchString(info.Name()) {
			list = append(list, Object{info.Name(), info.Size(), info.ModTime()})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	return list, nil
}

// each goes through the files of a folder by name. Those that are removed meanwhile it leaves out.
func (d *Directory) each(folder string, see func(fs.FileInfo) error) error {
	if !folderForm.MatchString(folder) {
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
		if err := see(info); err != nil {
			return err
		}
	}
	return err
}

// Folders goes through all folders.
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
				if ctx.Err() != nil || job.IsDir() && folderForm.MatchString(folder) && !yield(folder, nil) {
					return
				}
			}
		}
	}
}

// Remove removes objects.
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

// Clean removes temporary files.
func (d *Directory) Clean(_ context.Context, folder string, before time.Time) error {
	files := 0
	err := d.each(folder, func(info fs.FileInfo) error {
		files++
		if !strings.HasPrefix(info.Name(), temporary) || !info.ModTime().Before(before) {
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
		_ = d.disk.Remove(folder) // unless somebody puts something there at this moment
	}
	return nil
}
