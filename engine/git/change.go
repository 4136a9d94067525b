package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/engine/client"
)

// Limits of a change.
const (
	MaxChange = 16 << 20 // bytes of the diff
	maxBinary = 64 << 20 // bytes that its binary parts say they unpack to
)

// Save writes a change to a file, at most MaxChange bytes, and checks the sizes that its binary parts
// declare before git unpacks them.
func Save(path string, change io.Reader) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("save the change: %w", err)
	}
	defer f.Close()
	n, err := io.Copy(f, io.LimitReader(change, MaxChange+1))
	if err != nil {
		return fmt.Errorf("save the change: %w", err)
	}
	if n > MaxChange {
		return tooLarge("The change is larger than %d MiB.", MaxChange>>20)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("save the change: %w", err)
	}
	if err := checkBinaries(f); err != nil {
		return err
	}
	return f.Close()
}

func tooLarge(format string, args ...any) error {
	return &client.Failure{Class: client.Permanent, Code: client.CodeTooLarge, Message: fmt.Sprintf(format, args...)}
}

// checkBinaries sums the sizes in lines such as "literal 4096", with which binary parts begin. Lines of
// text begin with a space, a sign or a word of git's, and lines of data have no space.
func checkBinaries(change io.Reader) error {
	var sum int64
	lines := bufio.NewReaderSize(change, 4096)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("read the change: %w", err)
		}
		end := errors.Is(err, io.EOF)
		for _, kind := range []string{"literal ", "delta "} {
			size, ok := strings.CutPrefix(string(line), kind)
			if !ok {
				continue
			}
			n, err := strconv.ParseInt(strings.TrimSpace(size), 10, 64)
			if err != nil || n < 0 || n > maxBinary || sum+n > maxBinary {
				return tooLarge("The binary files of the change are larger than %d MiB.", maxBinary>>20)
			}
			sum += n
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = lines.ReadSlice('\n')
			end = errors.Is(err, io.EOF)
		}
		if end {
			return nil
		}
	}
}

// Apply applies the diff in a file to the tree of a commit and returns the tree that this gives. The failure is
// no_change if it is the same.
func (r *Repository) Apply(ctx context.Context, parent, file string) (tree string, err error) {
	if _, err := r.git(ctx, "read-tree", parent); err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("the change: %w", err)
	}
	if info.Size() == 0 {
		return "", noChange()
	}
	_, err = run(ctx, command{
		args: []string{"apply", "--cached", "--binary", "--whitespace=nowarn", filepath.Clean(file)},
		dir:  r.dir, env: r.quarantine, bounded: true,
	})
	if e, ok := errors.AsType[*Error](err); ok && r.isToBlame(ctx, file, e) {
		return "", &client.Failure{Class: client.Permanent, Code: client.CodeChange,
			Message: "The change does not apply: " + strings.ReplaceAll(e.words(), file, "change.diff")}
	}
	if err != nil {
		return "", err
	}
	if tree, err = r.line(ctx, "write-tree"); err != nil {
		return "", err
	}
	before, err := r.Tree(ctx, parent)
	if err == nil && before == tree {
		err = noChange()
	}
	return tree, err
}

// isToBlame reports whether a change did not apply because of itself, and not because the mirror is damaged: git
// cannot even read it, or says of its files only that they are others.
func (r *Repository) isToBlame(ctx context.Context, file string, failure *Error) bool {
	_, err := run(ctx, command{args: []string{"apply", "--numstat", filepath.Clean(file)}, dir: r.dir, env: r.quarantine, bounded: true})
	if err != nil {
		return ctx.Err() == nil
	}
	return !damage.MatchString(otherFile.ReplaceAllString(failure.Said, ""))
}

// otherFile matches what git apply says of a file that is not as the change expects, with the file's name.
var otherFile = regexp.MustCompile(`(?m)^error: (patch failed: .*|corrupt (binary )?patch.*|invalid path .*|` +
	`affected file .* is beyond a symbolic link|` +
	`.*: (patch does not apply|does not (exist in|match) index|already exists in index|wrong type))$`)

func noChange() error {
	return &client.Failure{Class: client.Permanent, Code: client.CodeNoChange, Message: "The change leaves every file as it was."}
}

// A Commit is what a commit id is a function of.
type Commit struct {
	Tree    string
	Parents []string
	Message string
	Author  string // name <address>
	At      time.Time
}

// Write makes a commit in the quarantine. Equal commits have equal ids.
func (r *Repository) Write(ctx context.Context, c Commit) (string, error) {
	name, address, ok := parseAuthor(c.Author)
	if !ok {
		return "", &client.Failure{Class: client.Permanent, Code: client.CodeHostRefused,
			Message: fmt.Sprintf("The author %q is not of the form: name <address>.", c.Author)}
	}
	date := fmt.Sprintf("@%d +0000", c.At.Unix())
	env := append([]string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + address, "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + address, "GIT_COMMITTER_DATE=" + date,
	}, r.quarantine...)
	args := []string{"commit-tree", c.Tree}
	for _, p := range c.Parents {
		args = append(args, "-p", p)
	}
	message := strings.TrimSpace(strings.ReplaceAll(c.Message, "\x00", "")) + "\n"
	id, err := run(ctx, command{args: args, dir: r.dir, env: env, in: strings.NewReader(message)})
	if id = strings.TrimSpace(id); err == nil {
		r.objects[id] = object{c.Tree, c.Parents, message}
	}
	return id, err
}

// Keep copies a commit of the quarantine into the mirror, so that it need not be fetched. Its parents are there. It is
// checked as it would be on a fetch.
func (r *Repository) Keep(ctx context.Context, commit string) error {
	o, err := r.object(ctx, commit)
	if err != nil {
		return err
	}
	wanted := commit + "\n"
	for _, p := range o.parents {
		wanted += "^" + p + "\n"
	}
	pack, err := run(ctx, command{
		args: []string{"pack-objects", "--revs", "--stdout", "--quiet"}, dir: r.dir, env: r.quarantine, in: strings.NewReader(wanted),
	})
	if err != nil {
		return err
	}
	_, err = run(ctx, command{args: []string{"index-pack", "--stdin", "--strict"}, dir: r.dir, in: strings.NewReader(pack)})
	return err
}

func parseAuthor(text string) (name, address string, ok bool) {
	name, rest, found := strings.Cut(text, "<")
	address, after, closed := strings.Cut(rest, ">")
	name, address = strings.TrimSpace(name), strings.TrimSpace(address)
	return name, address, found && closed && after == "" && name != "" && address != "" && !strings.ContainsAny(text, "\n\r\x00")
}

// An object is what a commit says.
type object struct {
	tree    string
	parents []string
	message string
}

// object reads a commit once in a step.
func (r *Repository) object(ctx context.Context, commit string) (o object, err error) {
	if o, known := r.objects[commit]; known {
		return o, nil
	}
	text, err := r.git(ctx, "cat-file", "commit", commit)
	if err != nil {
		return o, err
	}
	head, message, _ := strings.Cut(text, "\n\n")
	o.message = message
	for line := range strings.SplitSeq(head, "\n") {
		switch name, value, _ := strings.Cut(line, " "); name {
		case "tree":
			o.tree = value
		case "parent":
			o.parents = append(o.parents, value)
		}
	}
	r.objects[commit] = o
	return o, nil
}

// Tree returns the tree of a commit.
func (r *Repository) Tree(ctx context.Context, commit string) (string, error) {
	o, err := r.object(ctx, commit)
	return o.tree, err
}

// EmptyTree makes a tree without files.
func (r *Repository) EmptyTree(ctx context.Context) (string, error) {
	text, err := run(ctx, command{args: []string{"mktree"}, dir: r.dir, env: r.quarantine, in: strings.NewReader("")})
	return strings.TrimSpace(text), err
}

// FirstParent returns the first parent of a commit, "" if it has none.
func (r *Repository) FirstParent(ctx context.Context, commit string) (string, error) {
	o, err := r.object(ctx, commit)
	if err != nil || len(o.parents) == 0 {
		return "", err
	}
	return o.parents[0], nil
}

// Message returns the message of a commit.
func (r *Repository) Message(ctx context.Context, commit string) (string, error) {
	o, err := r.object(ctx, commit)
	return o.message, err
}

// Committer returns who made a commit: name <address>.
func (r *Repository) Committer(ctx context.Context, commit string) (string, error) {
	return r.line(ctx, "show", "--no-patch", "--format=%cn <%ce>", commit)
}

// Contains reports whether the history of commit has ancestor.
func (r *Repository) Contains(ctx context.Context, commit, ancestor string) (bool, error) {
	if commit == ancestor {
		return true, nil
	}
	if is, err := r.isParent(ctx, commit, ancestor); err != nil || is { // the other way round, as it mostly is
		return false, err
	}
	_, err := r.git(ctx, "merge-base", "--is-ancestor", ancestor, commit)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == 1 {
		return false, nil
	}
	return err == nil, err
}

// isParent reports whether a commit has a parent.
func (r *Repository) isParent(ctx context.Context, parent, commit string) (bool, error) {
	o, err := r.object(ctx, commit)
	return slices.Contains(o.parents, parent), err
}

// MergeBase returns where two histories part, "" if they have nothing in common.
func (r *Repository) MergeBase(ctx context.Context, a, b string) (string, error) {
	if is, err := r.isParent(ctx, a, b); err != nil || is {
		return a, err
	}
	id, err := r.line(ctx, "merge-base", a, b)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == 1 {
		return "", nil
	}
	return id, err
}

// MergeOf returns the first commit on the way from after to head, by first parents, that contains a
// commit: the merge that brought it in. It is "" if none of the last maxWay does.
func (r *Repository) MergeOf(ctx context.Context, after, head, commit string) (string, error) {
	text, err := r.git(ctx, "rev-list", "--first-parent", "--reverse", "--max-count="+strconv.Itoa(maxWay), after+".."+head)
	if err != nil {
		return "", err
	}
	for id := range strings.FieldsSeq(text) {
		if has, err := r.Contains(ctx, id, commit); err != nil || has {
			return id, err
		}
	}
	return "", nil
}

const maxWay = 200

// Merge returns the tree of merging head into base, or the paths that conflict.
func (r *Repository) Merge(ctx context.Context, base, head string) (tree string, conflicts []string, err error) {
	if is, err := r.isParent(ctx, base, head); err != nil || is { // it has all of base
		tree, err := r.Tree(ctx, head)
		return tree, nil, err
	}
	text, err := r.git(ctx, "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", base, head)
	e, failed := errors.AsType[*Error](err)
	switch {
	case failed && e.Code == 1:
		_, paths, _ := strings.Cut(e.Output, "\x00")
		for path := range strings.SplitSeq(strings.TrimRight(paths, "\x00"), "\x00") {
			conflicts = append(conflicts, path)
		}
		return "", conflicts, nil
	case failed && strings.Contains(e.Said, "unrelated histories"):
		return "", nil, &client.Failure{Class: client.Permanent, Code: client.CodeChange,
			Message: "The branch and its target have no commit in common."}
	case err != nil:
		return "", nil, err
	}
	return strings.TrimRight(text, "\x00\n"), nil, nil
}
