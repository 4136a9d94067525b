package record

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"svc/dev/codehost/bare"
	"svc/dev/codehost/people"
)

// An Import is a repository that is made when the host has none of its name. Its branch main has one commit then,
// whose id depends only on the fields from Files to Message.
type Import struct {
	Name    string // owner/name
	Files   map[string][]byte
	Author  string // name <address>
	At      time.Time
	Message string

	Private bool            // can be read only with a token
	Writers []string        // logins of the people who may push
	Issues  []ImportedIssue // in the order of their numbers
}

// An ImportedIssue is an open issue of a repository that is imported.
type ImportedIssue struct {
	Number      int
	Title, Body string
	Labels      []string
	Author      string // login
	At          time.Time
}

// MainBranch is the default branch of repositories.
const MainBranch = "main"

var (
	repositoryName = regexp.MustCompile(`^[a-z0-9-]{1,39}/[a-z0-9._-]{1,100}$`)
	filePath       = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
)

// IsName reports whether a repository may be called so.
func IsName(name string) bool {
	_, last, _ := strings.Cut(name, "/")
	return repositoryName.MatchString(name) && !strings.HasSuffix(name, ".git") && last != "." && last != ".."
}

// Check returns an error for what cannot be imported.
func (r Import) Check() error {
	switch {
	case !IsName(r.Name):
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

// Into makes the repository in a folder. The record is written last: what an interrupted import
// left is made again.
func (r Import) Into(ctx context.Context, folder string) (*Repository, error) {
	made := &Repository{File: filepath.Join(folder, r.Name+".json"), Record: r.New()}
	dir := filepath.Join(folder, r.Name+".git")
	err := os.RemoveAll(dir)
	if err == nil {
		made.Bare, err = bare.Create(ctx, dir, MainBranch)
	}
	if err == nil {
		err = made.Bare.Import(ctx, MainBranch, bare.First{Files: r.Files, Author: r.Author, At: r.At, Message: r.Message})
	}
	if err == nil {
		err = made.Save()
	}
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", r.Name, err)
	}
	return made, nil
}

// New returns the record of the repository.
func (r Import) New() *Record {
	id := people.IDFor(r.Name)
	out := &Record{
		ID: id, Name: r.Name, Private: r.Private, DefaultBranch: MainBranch, Methods: []string{"merge", "squash"},
		Writers: append([]string{}, r.Writers...), CreatedAt: r.At.UTC(), PushedAt: r.At.UTC(),
		LastID: id % 1e9 * 1e5, Issues: []*Issue{}, Statuses: []*Status{},
	}
	for _, i := range r.Issues {
		out.LastNumber = max(out.LastNumber, i.Number-1)
		out.AddIssue(i.Author, i.Title, i.Body, i.Labels, i.At.UTC())
	}
	return out
}
