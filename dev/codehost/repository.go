package codehost

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"svc/dev/codehost/record"
)

// A Repository is imported when the host has none of its name.
type Repository = record.Import

// An Issue is an open issue of a repository that is imported.
type Issue = record.ImportedIssue

// openAll opens the repositories of a folder, and imports those that it lacks.
func (h *host) openAll(ctx context.Context, folder string, list []Repository) error {
	for _, r := range list {
		if err := r.Check(); err != nil {
			return err
		}
	}
	files, err := fs.Glob(os.DirFS(folder), "*/*.json")
	if err != nil {
		return err
	}
	for _, file := range files {
		r, err := record.OpenRepository(filepath.Join(folder, file))
		if err != nil {
			return err
		}
		if err := h.sync(ctx, r, ""); err != nil {
			return err
		}
		h.repositories.Add(r)
	}
	for _, in := range list {
		if _, known := h.repositories.Find(in.Name); known {
			continue
		}
		r, err := in.Into(ctx, folder)
		if err != nil {
			return err
		}
		h.repositories.Add(r)
	}
	return nil
}
