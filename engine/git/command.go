// Package git does the engine's work on git objects: copies of repositories, changes and commits that
// enter these copies only once they are checked, merges, and what branches are at a code host.
//
// Git runs without anybody's configuration, hooks, terminal or work tree. It receives the credential
// in its environment alone, bound to the address of the repository.
package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	maxOutput  = 64 << 20 // bytes that a command may print
	maxSaid    = 16 << 10 // of its errors that are kept
	killDelay  = 5 * time.Second
	maxMemory  = 2 << 20   // KiB of address space of a command that reads a change
	maxWritten = 512 << 10 // blocks of 512 bytes of a file that such a command writes
)

// An Error is a command that failed, with what it said.
type Error struct {
	Command string // such as "fetch"
	Said    string
	Code    int // exit status; -1 if it was killed
	Output  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("git %s: %s", e.Command, cmp.Or(lastLines(e.Said), "exit status "+strconv.Itoa(e.Code)))
}

// lastLines returns the end of what git said in one line: its last lines have the reason.
func lastLines(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], " / ")
}

// A command is a run of git.
type command struct {
	args    []string
	dir     string // the repository; "" for none
	env     []string
	in      io.Reader
	bounded bool // it reads what a job wrote: memory and files have limits
	max     int  // bytes of output; maxOutput if 0
}

// ErrOutput says that a command printed more than it may.
var ErrOutput = errors.New("git printed too much")

// run returns what git prints. The error is an [*Error] if git ran and failed.
func run(ctx context.Context, c command) (string, error) {
	cmd := exec.CommandContext(ctx, "git", c.args...)
	if c.bounded {
		script := fmt.Sprintf(`ulimit -v %d 2>/dev/null; ulimit -f %d 2>/dev/null; exec git "$@"`, maxMemory, maxWritten)
		cmd = exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", script, "git"}, c.args...)...)
	}
	cmd.Env = append(environment(c.dir), c.env...)
	cmd.Dir = c.dir
	cmd.Stdin = c.in
	out, said := &bounded{max: cmp.Or(c.max, maxOutput)}, &tail{max: maxSaid}
	cmd.Stdout, cmd.Stderr = out, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killDelay
	err := cmd.Run()
	switch exit, failed := errors.AsType[*exec.ExitError](err); {
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s: %w", c.name(), context.Cause(ctx))
	case out.over:
		return "", fmt.Errorf("git %s: %w", c.name(), ErrOutput)
	case failed:
		return out.String(), &Error{Command: c.name(), Said: said.String(), Code: exit.ExitCode(), Output: out.String()}
	case err != nil:
		return "", fmt.Errorf("git %s: %w", c.name(), err)
	}
	return out.String(), nil
}

func (c command) name() string {
	for i := 0; i < len(c.args); i++ {
		if c.args[i] == "-c" {
			i++
			continue
		}
		return c.args[i]
	}
	return ""
}

// settings are those of every command.
var settings = [][2]string{
	{"core.hooksPath", "/dev/null"}, {"core.fsmonitor", "false"}, {"core.attributesFile", "/dev/null"},
	{"core.packedGitWindowSize", "32m"}, {"core.packedGitLimit", "512m"}, {"core.quotePath", "false"},
	{"gc.auto", "0"}, {"maintenance.auto", "false"}, {"init.defaultBranch", "main"}, {"safe.directory", "*"},
	{"fetch.fsckObjects", "true"}, {"fetch.unpackLimit", "1"}, {"transfer.credentialsInUrl", "die"}, {"commit.gpgSign", "false"},
	{"http.followRedirects", "false"}, {"http.lowSpeedLimit", "1"}, {"http.lowSpeedTime", "30"},
	{"protocol.allow", "never"},
}

// environment returns the variables of every command on a repository.
func environment(dir string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/dev/null", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1",
	}
	if dir != "" {
		env = append(env, "GIT_DIR="+dir)
	}
	if roots := os.Getenv("SSL_CERT_FILE"); roots != "" {
		env = append(env, "GIT_SSL_CAINFO="+roots)
	}
	return append(env, configuration(settings)...)
}

// configuration returns the variables that set values. A later list in an environment replaces an
// earlier one, so it has to contain that.
func configuration(set [][2]string) []string {
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(set))}
	for i, kv := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env
}

// bounded keeps what is written, up to max bytes, and then refuses more. It embeds no buffer, whose ReadFrom would
// know no bound.
type bounded struct {
	text strings.Builder
	max  int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > b.max {
		b.over = true
		return 0, ErrOutput
	}
	return b.text.Write(p)
}

func (b *bounded) String() string { return b.text.String() }

// tail keeps the last max bytes of what is written.
type tail struct {
	text []byte
	max  int
}

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p[max(0, len(p)-t.max):]...)
	t.text = t.text[max(0, len(t.text)-t.max):]
	return len(p), nil
}

func (t *tail) String() string { return string(t.text) }

// CheckVersion returns an error unless git is there and new enough to merge without a work tree.
func CheckVersion(ctx context.Context) error {
	text, err := run(ctx, command{args: []string{"version"}})
	if err != nil {
		return err
	}
	var major, minor int
	if _, err := fmt.Sscanf(text, "git version %d.%d", &major, &minor); err != nil {
		return fmt.Errorf("git version: %q", strings.TrimSpace(text))
	}
	if major < 2 || major == 2 && minor < 38 {
		return fmt.Errorf("git 2.38 or later is needed: this is %s", strings.TrimSpace(text))
	}
	return nil
}
