package codehost

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"svc/dev/codehost/bare"
	"svc/dev/codehost/people"
	"svc/dev/codehost/record"
)

// A Repository is imported when the host has none of its name. Its branch main has one commit then,
// whose id depends only on the fields from Files to Message.
type Repository struct {
	Name    string // owner/name
	Files   map[string][]byte
	Author  string // name <address>
	At      time.Time
	Message string

	Private bool     // can be read only with a token
	Writers []string // logins of the people who may push
	Issues  []Issue  // in the order of their numbers
}

// An Issue is an open issue of a repository that is imported.
type Issue struct {
	Number      int
	Title, Body string
	Labels      []string
	Author      string // login
	At          time.Time
}

const mainBranch = "main"

var (
	repositoryName = regexp.MustCompile(`^[a-z0-9-]{1,39}/[a-z0-9._-]{1,100}$`)
	filePath       = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
)

func isRepositoryName(name string) bool {
	_, last, _ := strings.Cut(name, "/")
	return repositoryName.MatchString(name) && !strings.HasSuffix(name, ".git") && last != "." && last != ".."
}

// check returns an error for what cannot be imported.
func (r Repository) check() error {
	switch {
	case !isRepositoryName(r.Name):
		return fmt.Errorf("repository %q: want owner/name", r.Name)
	case len(r.Files) == 0:
		return fmt.Errorf("repository %s has no files", r.Name)
	}
	for name := range r.Files {
		if !filePath.MatchString(name) {
			return fmt.Errorf("repository %s: %q is no path", r.Name, name)
		}
	}
	return nil
}

// importRepository makes a repository in a folder. The record is written last: what an interrupted import
// left is made again.
func importRepository(ctx context.Context, folder string, in Repository) (*record.Repository, error) {
	r := &record.Repository{File: filepath.Join(folder, in.Name+".json"), Record: in.record()}
	dir := filepath.Join(folder, in.Name+".git")
	err := os.RemoveAll(dir)
	if err == nil {
		r.Bare, err = bare.Create(ctx, dir, mainBranch)
	}
	if err == nil {
		err = r.Bare.Import(ctx, mainBranch, bare.First{Files: in.Files, Author: in.Author, At: in.At, Message: in.Message})
	}
	if err == nil {
		err = r.Save()
	}
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", in.Name, err)
	}
	return r, nil
}

func (r Repository) record() *record.Record {
	id := people.IDFor(r.Name)
	out := &record.Record{
		ID: id, Name: r.Name, Private: r.Private, DefaultBranch: mainBranch, Methods: []string{"merge", "squash"},
		Writers: append([]string{}, r.Writers...), CreatedAt: r.At.UTC(), PushedAt: r.At.UTC(),
		LastID: id % 1e9 * 1e5, Issues: []*record.Issue{}, Statuses: []*record.Status{},
	}
	for _, i := range r.Issues {
		out.LastNumber = max(out.LastNumber, i.Number-1)
		out.AddIssue(i.Author, i.Title, i.Body, i.Labels, i.At.UTC())
	}
	return out
}

// openAll opens the repositories of a folder, and imports those that it lacks.
func (h *host) openAll(ctx context.Context, folder string, list []Repository) error {
	for _, r := range list {
		if err := r.check(); err != nil {
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
		r, err := importRepository(ctx, folder, in)
		if err != nil {
			return err
		}
		h.repositories.Add(r)
	}
	return nil
}
