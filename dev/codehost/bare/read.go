package bare

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Refs returns all refs with their ids.
func (r Repo) Refs(ctx context.Context) (map[string]string, error) {
	out, err := r.git(ctx, "for-each-ref", "--format=%(objectname) %(refname)")
	refs := map[string]string{}
	for line := range strings.Lines(out) {
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if name != "" {
			refs[name] = id
		}
	}
	return refs, err
}

// Ref returns the id of a ref, such as refs/heads/main.
func (r Repo) Ref(ctx context.Context, name string) (string, error) {
	out, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
	if status(err) == 1 {
		return "", ErrNotFound
	}
	return out, err
}

// Resolve returns the commit that a branch or a full id names.
func (r Repo) Resolve(ctx context.Context, name string) (string, error) {
	switch {
	case IsID(name):
		return r.Ref(ctx, name+"^{commit}")
	case IsBranch(name):
		return r.Ref(ctx, "refs/heads/"+name)
	}
	return "", ErrNotFound
}

// A Signature says who did something and when.
type Signature struct {
	Name, Email string
	At          time.Time
}

// A Commit is a commit.
type Commit struct {
	ID, Tree          string
	Parents           []string
	Author, Committer Signature
	Message           string
}

// Title is the first line of the message.
func (c Commit) Title() string {
	title, _, _ := strings.Cut(c.Message, "\n")
	return title
}

const commitFormat = "%H%x00%T%x00%P%x00%an%x00%ae%x00%at%x00%cn%x00%ce%x00%ct%x00%B%x00"

// Commit returns a commit by its full id.
func (r Repo) Commit(ctx context.Context, id string) (Commit, error) {
	list, err := r.Log(ctx, 1, id)
	if err != nil {
		return Commit{}, err
	}
	return list[0], nil
}

// Log returns the newest commits of ranges, such as a..b, or ids.
func (r Repo) Log(ctx context.Context, most int, ranges ...string) ([]Commit, error) {
	args := []string{"log", "-z", "--max-count=" + strconv.Itoa(most), "--format=tformat:" + commitFormat, "--end-of-options"}
	out, err := r.git(ctx, append(args, ranges...)...)
	if status(err) == 128 {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	const fields = 11 // with the NUL of -z
	parts := strings.Split(out, "\x00")
	list := []Commit{}
	for ; len(parts) >= fields; parts = parts[fields:] {
		list = append(list, Commit{
			ID: parts[0], Tree: parts[1], Parents: strings.Fields(parts[2]), Message: strings.TrimRight(parts[9], "\n"),
			Author: newSignature(parts[3:6]), Committer: newSignature(parts[6:9]),
		})
	}
	return list, nil
}

func newSignature(fields []string) Signature {
	seconds, _ := strconv.ParseInt(fields[2], 10, 64) // git writes a number
	return Signature{fields[0], fields[1], time.Unix(seconds, 0).UTC()}
}

// An Entry is a file or folder of a tree.
type Entry struct {
	Name string // without its folder
	Path string
	Tree bool
	ID   string
	Size int64
}

// Files returns the entries of a folder, "" for the root, at a commit.
func (r Repo) Files(ctx context.Context, commit, folder string) ([]Entry, error) {
	args := []string{"ls-tree", "-z", "--long", commit}
	if folder != "" {
		args = append(args, "--", folder+"/")
	}
	out, err := r.git(ctx, args...)
	if status(err) == 128 {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	var list []Entry
	for text := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		info, name, _ := strings.Cut(text, "\t")
		fields := strings.Fields(info) // mode, kind, id, size
		if len(fields) != 4 {
			continue
		}
		size, _ := strconv.ParseInt(fields[3], 10, 64) // - of a folder
		base := name[strings.LastIndexByte(name, '/')+1:]
		list = append(list, Entry{Name: base, Path: name, Tree: fields[1] == "tree", ID: fields[2], Size: size})
	}
	return list, nil
}

// File returns a file at a commit.
func (r Repo) File(ctx context.Context, commit, path string) ([]byte, error) {
	out, err := r.run(ctx, call{args: []string{"cat-file", "blob", commit + ":" + path}})
	if status(err) == 128 {
		return nil, ErrNotFound
	}
	return []byte(out), err
}

// A Change is a changed file. Patch is its hunks, empty for a binary file.
type Change struct {
	Path, Old      string // Old is another path before, or ""
	Status         string // added, removed, modified, renamed
	Added, Removed int
	ID             string // of the blob after, or before if it is removed
	Patch          string
}

// Diff returns the changes from one commit, or the empty tree if that is "", to another.
func (r Repo) Diff(ctx context.Context, from, to string) ([]Change, error) {
	if from == "" {
		from = emptyTree
	}
	out, err := r.run(ctx, call{args: []string{
		"diff-tree", "-r", "-M", "--raw", "--numstat", "-z", "--abbrev=40", "--end-of-options", from, to,
	}})
	if err != nil {
		return nil, err
	}
	changes, err := parseChanges(strings.Split(out, "\x00"))
	if err != nil {
		return nil, err
	}
	patch, err := r.run(ctx, call{args: []string{"diff-tree", "-r", "-M", "-p", "--no-ext-diff", "--end-of-options", from, to}})
	if err != nil {
		return nil, err
	}
	for i, text := range splitPatch(patch) {
		if i < len(changes) {
			changes[i].Patch = text
		}
	}
	return changes, nil
}

const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

var statuses = map[byte]string{'A': "added", 'D': "removed", 'M': "modified", 'R': "renamed", 'T': "modified"}

// parseChanges parses the raw records and then the numbers of lines.
func parseChanges(parts []string) (list []Change, err error) {
	byPath := map[string]int{}
	for len(parts) > 1 && strings.HasPrefix(parts[0], ":") {
		fields := strings.Fields(parts[0]) // :mode mode id id status
		if len(fields) != 5 {
			return nil, fmt.Errorf("read changes: %q", parts[0])
		}
		c := Change{Path: parts[1], Status: statuses[fields[4][0]], ID: fields[3]}
		parts = parts[2:]
		switch c.Status {
		case "renamed":
			c.Old, c.Path, parts = c.Path, parts[0], parts[1:]
		case "removed":
			c.ID = fields[2]
		}
		byPath[c.Path] = len(list)
		list = append(list, c)
	}
	for len(parts) > 0 && parts[0] != "" {
		fields := strings.SplitN(parts[0], "\t", 3)
		parts = parts[1:]
		if len(fields) != 3 {
			return nil, fmt.Errorf("read numbers of lines: %q", fields)
		}
		path := fields[2]
		if path == "" && len(parts) > 1 { // of a rename
			path, parts = parts[1], parts[2:]
		}
		if i, ok := byPath[path]; ok {
			list[i].Added, _ = strconv.Atoi(fields[0]) // - of a binary file
			list[i].Removed, _ = strconv.Atoi(fields[1])
		}
	}
	return list, nil
}

// splitPatch returns the hunks of each file of a patch.
func splitPatch(patch string) (list []string) {
	for part := range strings.SplitSeq("\n"+patch, "\ndiff --git ") {
		hunks := ""
		if i := strings.Index(part, "\n@@ "); i >= 0 {
			hunks = strings.TrimSuffix(part[i+1:], "\n")
		}
		list = append(list, hunks)
	}
	return list[1:]
}

// Contains reports whether a commit is an ancestor of another, or the same.
func (r Repo) Contains(ctx context.Context, descendant, ancestor string) (bool, error) {
	_, err := r.git(ctx, "merge-base", "--is-ancestor", ancestor, descendant)
	switch status(err) {
	case 0:
		return true, nil
	case 1:
		return false, nil
	}
	return false, err
}

// MergeBase returns the best common ancestor of two commits, or ErrNotFound.
func (r Repo) MergeBase(ctx context.Context, a, b string) (string, error) {
	out, err := r.git(ctx, "merge-base", a, b)
	if status(err) == 1 {
		return "", ErrNotFound
	}
	return out, err
}

// Lines returns how many lines changes add and remove.
func Lines(changes []Change) (added, removed int) {
	for _, c := range changes {
		added, removed = added+c.Added, removed+c.Removed
	}
	return added, removed
}
