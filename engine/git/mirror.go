package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc/engine/client"
	"svc/filelock"
)

// Mirrors are bare copies of repositories in a folder. They save fetching: whatever is missing or
// damaged is fetched again.
type Mirrors struct {
	folder string
	lock   *filelock.Lock // nobody else works in folder
	packs  int            // of a repository, from which they are joined

	mu    sync.Mutex
	turns map[string]chan struct{} // by repository; one piece of work at a time
}

const (
	maxFolders = 64 // processes that can work below one folder
	maxPacks   = 50 // each fetch adds one
)

// Open returns the mirrors in a folder below dir that no other process uses.
func Open(dir string) (*Mirrors, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("mirrors: %w", err)
	}
	for n := range maxFolders {
		folder := filepath.Join(dir, strconv.Itoa(n))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("mirrors: %w", err)
		}
		lock, err := filelock.Try(folder + ".lock")
		if _, held := errors.AsType[*filelock.HeldError](err); held {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("mirrors: %w", err)
		}
		_ = os.RemoveAll(filepath.Join(folder, "steps")) // left by a process that was killed
		return &Mirrors{folder: folder, lock: lock, packs: maxPacks, turns: map[string]chan struct{}{}}, nil
	}
	return nil, fmt.Errorf("mirrors: %d processes use %s", maxFolders, dir)
}

// Close lets another process use the folder.
func (m *Mirrors) Close() error { return m.lock.Unlock() }

// Folder returns where the mirrors are.
func (m *Mirrors) Folder() string { return m.folder }

// Temp makes a folder that the caller removes.
func (m *Mirrors) Temp() (string, error) {
	steps := filepath.Join(m.folder, "steps")
	if err := os.MkdirAll(steps, 0o700); err != nil {
		return "", fmt.Errorf("folder of a step: %w", err)
	}
	return os.MkdirTemp(steps, "")
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Work calls do with the repository of an id, alone among the callers of that id. If the copy turns
// out to be damaged it is deleted and do is called a second time.
func (m *Mirrors) Work(ctx context.Context, id string, remote Remote, do func(*Repository) error) error {
	if !idPattern.MatchString(id) {
		return &client.Failure{Class: client.Permanent, Code: client.CodeNoRepository, Message: "The repository's id is not usable."}
	}
	leave, err := m.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	err = m.work(ctx, id, remote, do)
	if damaged(err) && ctx.Err() == nil {
		if err := os.RemoveAll(m.path(id)); err != nil {
			return fmt.Errorf("delete a damaged mirror: %w", err)
		}
		err = m.work(ctx, id, remote, do)
	}
	return err
}

func (m *Mirrors) path(id string) string { return filepath.Join(m.folder, id+".git") }

// enter waits for the turn of the caller.
func (m *Mirrors) enter(ctx context.Context, id string) (leave func(), err error) {
	m.mu.Lock()
	turn := m.turns[id]
	if turn == nil {
		turn = make(chan struct{}, 1)
		m.turns[id] = turn
	}
	m.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (m *Mirrors) work(ctx context.Context, id string, remote Remote, do func(*Repository) error) error {
	dir := m.path(id)
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("mirror: %w", err)
		}
		init := command{args: []string{"init", "--bare", "--quiet", "--template=", dir}}
		if _, err := run(ctx, init); err != nil {
			return err
		}
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil { // it is in use; see RemoveIdle
		return fmt.Errorf("mirror: %w", err)
	}
	if err := m.join(ctx, dir); err != nil {
		return err
	}
	step, err := m.Temp()
	if err != nil {
		return err
	}
	defer os.RemoveAll(step)
	r, err := quarantined(dir, step, remote)
	if err != nil {
		return err
	}
	return do(r)
}

// join makes one pack of many, without the objects that no branch has any more.
func (m *Mirrors) join(ctx context.Context, dir string) error {
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) <= m.packs {
		return err
	}
	_, err = run(ctx, command{args: []string{"repack", "-a", "-d", "-q"}, dir: dir})
	return err
}

var damage = regexp.MustCompile(`(?i)not a git repository|corrupt|bad object|object file .* is empty|` +
	`unable to read (tree|sha1 file|[0-9a-f]{40})|loose object|packfile .* (cannot be|does not match)|missing (blob|tree|commit)|` +
	`did not send all necessary objects|unable to create temporary file|inflate: |` +
	`bad (sha1|signature)|garbage at end|index file .* is too small|non-monotonic index`)

// damaged reports whether git says that the mirror lacks what it should have.
func damaged(err error) bool {
	if failure, ok := errors.AsType[*client.Failure](err); ok {
		return failure.Class != client.Surroundings && failure.Code != client.CodeChange && damage.MatchString(failure.Message)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return damage.MatchString(e.Said)
	}
	return errors.Is(err, os.ErrNotExist)
}

// A Repository is a mirror that a step works with. Objects that the step makes are in a folder of
// its own and are gone with it.
type Repository struct {
	dir        string
	step       string
	quarantine []string // variables
	remote     Remote
	objects    map[string]object // commits that were read
}

func quarantined(dir, step string, remote Remote) (*Repository, error) {
	objects := filepath.Join(step, "objects")
	if err := os.MkdirAll(objects, 0o700); err != nil {
		return nil, fmt.Errorf("quarantine: %w", err)
	}
	return &Repository{dir: dir, step: step, remote: remote, objects: map[string]object{}, quarantine: []string{
		"GIT_OBJECT_DIRECTORY=" + objects,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(dir, "objects"),
		"GIT_INDEX_FILE=" + filepath.Join(step, "index"),
	}}, nil
}

// git runs git with the mirror's objects and those of the quarantine.
func (r *Repository) git(ctx context.Context, args ...string) (string, error) {
	return run(ctx, command{args: args, dir: r.dir, env: r.quarantine})
}

// line is git for an answer of one line.
func (r *Repository) line(ctx context.Context, args ...string) (string, error) {
	text, err := r.git(ctx, args...)
	return strings.TrimSpace(text), err
}

// Branch fetches a branch and returns its commit, "" if there is no such branch.
func (r *Repository) Branch(ctx context.Context, name string) (string, error) {
	heads, err := r.Branches(ctx, name)
	return heads[name], err
}

// Branches fetches branches and returns their commits. Those that do not exist are absent.
func (r *Repository) Branches(ctx context.Context, names ...string) (map[string]string, error) {
	heads, err := r.remote.Heads(ctx, names...)
	if err != nil {
		return nil, err
	}
	var specs []string
	for name, id := range heads {
		if !r.Has(ctx, id) {
			specs = append(specs, "+refs/heads/"+name+":"+tracking(name))
		}
	}
	if specs == nil {
		return heads, nil
	}
	if err := r.fetch(ctx, specs...); err != nil {
		return nil, err
	}
	for name, id := range heads { // it may have moved in between: what was fetched counts
		if !r.Has(ctx, id) {
			moved, err := r.line(ctx, "rev-parse", "--verify", "--quiet", tracking(name))
			if err != nil {
				return nil, err
			}
			heads[name] = moved
		}
	}
	return heads, nil
}

// Fetch is [Repository.Branch] for a branch that has moved: it fetches without asking before.
func (r *Repository) Fetch(ctx context.Context, name string) (string, error) {
	if !ValidBranch(name) {
		return "", invalidBranch(name)
	}
	err := r.fetch(ctx, "+refs/heads/"+name+":"+tracking(name))
	if f, ok := errors.AsType[*client.Failure](err); ok && f.Code == client.CodeMissingCommit {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return r.line(ctx, "rev-parse", "--verify", "--quiet", tracking(name))
}

// tracking returns the mirror's ref of a branch, which is no prefix of another's.
func tracking(branch string) string {
	sum := sha256.Sum256([]byte(branch))
	return "refs/svc/branches/" + hex.EncodeToString(sum[:16])
}

// Commit fetches a commit unless the mirror has it.
func (r *Repository) Commit(ctx context.Context, id string) error {
	if !ValidCommit(id) {
		return missing(id)
	}
	if r.Has(ctx, id) {
		return nil
	}
	err := r.fetch(ctx, "+"+id+":refs/svc/commit")
	if f, ok := errors.AsType[*client.Failure](err); ok && f.Code == client.CodeMissingCommit { // or it may not be asked for
		err = r.fetch(ctx, "--prune", "+refs/heads/*:refs/svc/all/*")
	}
	if err != nil {
		return err
	}
	if !r.Has(ctx, id) {
		return missing(id)
	}
	return nil
}

func missing(id string) error {
	return &client.Failure{Class: client.Permanent, Code: client.CodeMissingCommit,
		Message: fmt.Sprintf("The repository does not have the commit %.40s.", id)}
}

// Has reports whether the mirror has a commit with its history.
func (r *Repository) Has(ctx context.Context, id string) bool {
	_, err := r.object(ctx, id)
	return err == nil
}

// fetch fetches into the mirror itself.
func (r *Repository) fetch(ctx context.Context, specs ...string) error {
	env, err := r.remote.environment(ctx)
	if err != nil {
		return err
	}
	args := []string{"fetch", "--quiet", "--no-tags", "--force", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance"}
	for _, s := range specs {
		if strings.HasPrefix(s, "--") {
			args = append(args, s)
		}
	}
	args = append(args, r.remote.URL)
	for _, s := range specs {
		if !strings.HasPrefix(s, "--") {
			args = append(args, s)
		}
	}
	_, err = run(ctx, command{args: args, dir: r.dir, env: env})
	return remoteError(err)
}

// An Update moves a branch at the code host from From to To. An empty From says that there is no such
// branch, an empty To deletes it. Force moves it from wherever it is.
type Update struct {
	Branch, From, To string
	Force            bool
}

// Push moves a branch. It does nothing if the branch is at To already. The failure is head_moved if it
// is neither there nor at From.
func (r *Repository) Push(ctx context.Context, u Update) error {
	if !ValidBranch(u.Branch) {
		return invalidBranch(u.Branch)
	}
	env, err := r.remote.environment(ctx)
	if err != nil {
		return err
	}
	ref := "refs/heads/" + u.Branch
	args := []string{"push", "--porcelain", "--no-verify"}
	if u.Force {
		args = append(args, "--force")
	} else {
		args = append(args, "--force-with-lease="+ref+":"+u.From)
	}
	_, err = run(ctx, command{args: append(args, r.remote.URL, u.To+":"+ref), dir: r.dir, env: append(env, r.quarantine...)})
	return remoteError(err)
}
