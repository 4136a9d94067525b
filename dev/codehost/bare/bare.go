// Package bare keeps bare git repositories in folders: it creates, serves, reads and merges them with
// the git of the machine, which must be 2.38 or newer.
package bare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"svc/atomicfile"
)

// A Repo is a bare repository. Its methods may be called concurrently; those that write refs compare
// and swap them.
type Repo struct {
	Dir string // ends in .git
}

// Errors of this package.
var (
	ErrNotFound = errors.New("no such ref or object")
	ErrMoved    = errors.New("the ref is not where it is expected")
	ErrConflict = errors.New("the branches conflict")
)

// Zero is the id of no commit: the old value of a ref that is created, the new one of a ref that is deleted.
const Zero = "0000000000000000000000000000000000000000"

// IsID reports whether text is a full object id.
func IsID(text string) bool { return fullID.MatchString(text) }

var fullID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// IsBranch reports whether text can name a branch. It is stricter than git.
func IsBranch(text string) bool {
	return len(text) <= 200 && branch.MatchString(text) && !strings.Contains(text, "..") && !strings.HasSuffix(text, ".lock")
}

var branch = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9._+-]*(/[A-Za-z0-9_+][A-Za-z0-9._+-]*)*$`)

// Create creates an empty repository in dir, whose HEAD names a branch.
func Create(ctx context.Context, dir, head string) (Repo, error) {
	if err := atomicfile.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return Repo{}, err
	}
	r := Repo{dir}
	_, err := r.run(ctx, call{args: []string{"init", "--quiet", "--bare", "--template=", "--initial-branch=" + head, dir}, outside: true})
	return r, err
}

// settings are the configuration of all repositories; nothing else is configured but by git's defaults.
var settings = [][2]string{
	{"receive.fsckObjects", "true"},
	{"receive.autogc", "false"}, // no process may outlive its request
	{"receive.denyDeleteCurrent", "refuse"},
	{"receive.hideRefs", "refs/pull"},
	{"gc.auto", "0"},
	{"uploadpack.allowAnySHA1InWant", "true"},
	{"uploadpack.allowFilter", "true"},
	{"core.logAllRefUpdates", "false"},
	{"core.quotePath", "false"},
	{"advice.detachedHead", "false"},
}

// environment is git's whole environment.
func (r Repo) environment(more ...[2]string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.Dir, "LC_ALL=C.UTF-8", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
	}
	list := append([][2]string{{"safe.directory", r.Dir}, {"core.hooksPath", "/dev/null"}}, settings...)
	list = append(list, more...)
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(list)))
	for i, kv := range list {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env
}

// A call is a call of git. It is outside if the repository does not exist yet.
type call struct {
	args    []string
	stdin   []byte
	env     []string
	outside bool
}

// An exitError is an exit status of git with what it said.
type exitError struct {
	Args   []string
	Status int
	Stderr string
}

func (e *exitError) Error() string {
	return fmt.Sprintf("git %s: exit status %d: %s", e.Args[0], e.Status, strings.TrimSpace(e.Stderr))
}

// run runs git in r and returns its output, also with an error.
func (r Repo) run(ctx context.Context, c call) (string, error) {
	cmd := exec.CommandContext(ctx, "git", c.args...)
	if cmd.Dir = r.Dir; c.outside {
		cmd.Dir = "/"
	}
	cmd.Env = append(r.environment(), c.env...)
	cmd.Stdin = bytes.NewReader(c.stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		err = &exitError{c.args, exit.ExitCode(), said.String()}
	} else if err != nil {
		err = fmt.Errorf("git %s: %w", c.args[0], err)
	}
	return out.String(), err
}

// git runs git and returns its output without the last line feed.
func (r Repo) git(ctx context.Context, args ...string) (string, error) {
	out, err := r.run(ctx, call{args: args})
	return strings.TrimSuffix(out, "\n"), err
}

// status returns the exit status of git, or 0 if err is nil, or -1 if it did not exit.
func status(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.Status
	}
	return -1
}
