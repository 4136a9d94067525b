package git

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"svc/engine/client"
	"svc/events"
)

// Modes of files in trees.
const (
	ModeFile       = "100644"
	ModeExecutable = "100755"
	ModeSymlink    = "120000"
	ModeSubmodule  = "160000"
	ModeAbsent     = "000000"
)

// A Change is a path that differs between two trees. A renamed file is two changes.
type Change struct {
	Path     string
	From, To string // modes; ModeAbsent if there is no such file
	FromBlob string
	Blob     string // in the later tree
	Added    int    // lines
	Removed  int
	Binary   bool
}

// New reports whether the path is not in the earlier tree.
func (c Change) New() bool { return c.From == ModeAbsent }

// Gone reports whether the path is not in the later tree.
func (c Change) Gone() bool { return c.To == ModeAbsent }

// Difference returns what the tree of b changes of that of a, by path.
func (r *Repository) Difference(ctx context.Context, a, b string) ([]Change, error) {
	text, err := r.git(ctx, "diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-commit-id", "--abbrev=64",
		"--raw", "--numstat", "-z", a, b)
	if errors.Is(err, ErrOutput) {
		return nil, tooLarge("The change has more files than can be looked at.")
	}
	if err != nil {
		return nil, err
	}
	return parseDifference(text)
}

// parseDifference parses raw entries (":100644 100755 <id> <id> M", then the path) and, after them,
// counts ("3\t1\tpath").
func parseDifference(text string) ([]Change, error) {
	var list []Change
	index := map[string]int{}
	fields := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	for i := 0; i < len(fields); i++ {
		field := fields[i]
		if raw, ok := strings.CutPrefix(field, ":"); ok {
			parts := strings.Fields(raw)
			if i++; len(parts) != 5 || i == len(fields) {
				return nil, fmt.Errorf("git diff-tree: entry %q", field)
			}
			index[fields[i]] = len(list)
			list = append(list, Change{Path: fields[i], From: parts[0], To: parts[1], FromBlob: parts[2], Blob: parts[3]})
			continue
		}
		parts := strings.SplitN(field, "\t", 3)
		if len(parts) != 3 {
			continue
		}
		at, ok := index[parts[2]]
		if !ok {
			continue
		}
		c := &list[at]
		if c.Binary = parts[0] == "-"; c.Binary {
			continue
		}
		var err, err2 error
		c.Added, err = strconv.Atoi(parts[0])
		c.Removed, err2 = strconv.Atoi(parts[1])
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("git diff-tree: %w", err)
		}
	}
	return list, nil
}

// Summary returns what a push lists.
func Summary(list []Change) client.CommitResult {
	s := client.CommitResult{Total: len(list), Files: []client.FileChange{}}
	for _, c := range list {
		s.Added += c.Added
		s.Removed += c.Removed
		if len(s.Files) == events.MaxPushedFiles {
			continue
		}
		kind := events.FileModified
		switch {
		case c.New():
			kind = events.FileAdded
		case c.Gone():
			kind = events.FileRemoved
		}
		path := strings.ToValidUTF8(c.Path, "\uFFFD")
		s.Files = append(s.Files, client.FileChange{Path: path, Change: string(kind), Added: c.Added, Removed: c.Removed})
	}
	return s
}

// maxText bounds the text of a difference.
const maxText = 48 << 20

// Text calls see with every line that the tree of b adds to or removes from files of that of a. Binary
// files have none. The error is [ErrOutput] if the text is too long.
func (r *Repository) Text(ctx context.Context, a, b string, see func(path string, added bool, line string)) error {
	text, err := run(ctx, command{
		args: []string{"diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-commit-id", "--no-color",
			"--unified=0", "--src-prefix=a/", "--dst-prefix=b/", a, b},
		dir: r.dir, env: r.quarantine, max: maxText,
	})
	if err != nil {
		return err
	}
	path, removedLeft, addedLeft := "", 0, 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case removedLeft > 0 && strings.HasPrefix(line, "-"):
			removedLeft--
			see(path, false, line[1:])
		case addedLeft > 0 && strings.HasPrefix(line, "+"):
			addedLeft--
			see(path, true, line[1:])
		case strings.HasPrefix(line, "@@ "):
			removedLeft, addedLeft = hunk(line)
		case strings.HasPrefix(line, "--- a/"), strings.HasPrefix(line, "+++ b/"):
			path = unquoted(line[6:])
		case strings.HasPrefix(line, `--- "a/`), strings.HasPrefix(line, `+++ "b/`):
			path = strings.TrimPrefix(strings.TrimPrefix(unquoted(line[4:]), "a/"), "b/")
		}
	}
	return nil
}

// unquoted returns a path as git writes it after the prefix: with a tab at the end if it has spaces,
// quoted as in C if it has strange bytes.
func unquoted(text string) string {
	text = strings.TrimSuffix(text, "\t")
	if plain, err := strconv.Unquote(text); err == nil && strings.HasPrefix(text, `"`) {
		return plain
	}
	return text
}

// hunk returns the counts of "@@ -1,2 +3 @@".
func hunk(line string) (removed, added int) {
	parts := strings.Fields(line)
	if len(parts) < 3 {
		return 0, 0
	}
	count := func(text string) int {
		_, n, ok := strings.Cut(text, ",")
		if !ok {
			return 1
		}
		k, _ := strconv.Atoi(n)
		return k
	}
	return count(parts[1]), count(parts[2])
}

// Sizes returns the sizes of blobs.
func (r *Repository) Sizes(ctx context.Context, blobs []string) (map[string]int64, error) {
	if len(blobs) == 0 {
		return nil, nil
	}
	text, err := run(ctx, command{
		args: []string{"cat-file", "--batch-check=%(objectname) %(objectsize)"}, dir: r.dir, env: r.quarantine,
		in: strings.NewReader(strings.Join(blobs, "\n") + "\n"),
	})
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for line := range strings.Lines(text) {
		id, size, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("git cat-file: %q", line)
		}
		sizes[id] = n
	}
	return sizes, nil
}

// Blob returns the content of a blob of at most limit bytes. Larger ones are [ErrOutput].
func (r *Repository) Blob(ctx context.Context, id string, limit int) (string, error) {
	return run(ctx, command{args: []string{"cat-file", "blob", id}, dir: r.dir, env: r.quarantine, max: limit})
}

// ErrNoFile says that what is at a path is a folder or a link.
var ErrNoFile = errors.New("not a regular file")

// File returns the content of a regular file of a commit, and whether there is such a file. The error is [ErrNoFile] if
// something else is at the path.
func (r *Repository) File(ctx context.Context, commit, path string, limit int) (content string, found bool, err error) {
	text, err := r.git(ctx, "ls-tree", "-z", "--full-tree", commit, "--", path)
	if err != nil {
		return "", false, err
	}
	entry, name, _ := strings.Cut(strings.TrimSuffix(text, "\x00"), "\t")
	parts := strings.Fields(entry)
	switch {
	case name != path || len(parts) != 3:
		return "", false, nil
	case parts[1] != "blob" || parts[0] == ModeSymlink:
		return "", false, ErrNoFile
	}
	content, err = r.Blob(ctx, parts[2], limit)
	return content, err == nil, err
}

// Names returns all paths of a commit.
func (r *Repository) Names(ctx context.Context, commit string) ([]string, error) {
	text, err := r.git(ctx, "ls-tree", "-r", "-z", "--full-tree", "--name-only", commit)
	if err != nil || text == "" {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(text, "\x00"), "\x00"), nil
}
