package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const testTimeout = 2 * time.Minute // timeout of a test's step

// install links this test binary under the names of the programs in one folder.
func install(t *testing.T, names ...string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range names {
		if os.Link(self, filepath.Join(dir, name)) == nil {
			continue
		}
		text, err := os.ReadFile(self)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o700))
	}
	return dir
}

// installRunner adds a small svc-runner, because it is packed for other machines.
func installRunner(t *testing.T, dir string) {
	t.Helper()
	script := fmt.Sprintf("#!/bin/sh\nSVC_TEST_PROGRAM=svc-runner exec '%s' \"$@\"\n", filepath.Join(dir, "svc"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "svc-runner"), []byte(script), 0o700))
}

// A site is a folder in which a test runs svc repeatedly.
type site struct {
	programs, data, calls string
	environ               []string
}

func newSite(t *testing.T, environ ...string) *site {
	t.Helper()
	programs := install(t, "svc", "svc-db", "svc-engine", "svc-codehost", "svc-rest", "svc-ui", "svc-gateway")
	installRunner(t, programs)
	s := &site{programs, filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "calls"), nil}
	s.environ = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "SVC_PG_BINDIR=" + os.Getenv("SVC_PG_BINDIR"),
		"SVC_DATA_DIR=" + s.data, "SVC_TEST_CALLS=" + s.calls, "SVC_VERBOSE=true",
		"GORACE=atexit_sleep_ms=0", // saves a second for each program
		"SVC_REST_ADDR=127.0.0.1:0", "SVC_ENGINE_ADDR=127.0.0.1:0", "SVC_CODEHOST_ADDR=127.0.0.1:0", "SVC_METRICS_ADDR=127.0.0.1:0",
		"SVC_GATEWAY_ADDR=127.0.0.1:0", "SVC_UI_ADDR=127.0.0.1:0",
	}, environ...)
	return s
}

// A running is a running svc.
type running struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	text  strings.Builder // lines read so far
	pids  map[string]int
}

// start starts svc with additional environment variables.
func (s *site) start(t *testing.T, environ ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: exec.Command(filepath.Join(s.programs, "svc")), lines: make(chan string, 10_000), pids: map[string]int{}}
	r.cmd.Env = append(s.environ[:len(s.environ):len(s.environ)], environ...)
	pipe, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	r.cmd.Stderr = r.cmd.Stdout
	require.NoError(t, r.cmd.Start())
	go r.read(pipe)
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

func (r *running) read(pipe io.Reader) {
	defer close(r.lines)
	for scan := bufio.NewScanner(pipe); scan.Scan(); {
		r.lines <- scan.Text()
	}
}

var pidLine = regexp.MustCompile(`^(\S+) +│ pid (\d+)$`)

// next returns the next line, and false after the last one.
func (r *running) next() (string, bool) {
	r.t.Helper()
	select {
	case line, ok := <-r.lines:
		r.text.WriteString(line + "\n")
		if m := pidLine.FindStringSubmatch(line); m != nil {
			r.pids[m[1]], _ = strconv.Atoi(m[2])
		}
		return line, ok
	case <-time.After(testTimeout):
		r.t.Fatalf("svc says nothing more after:\n%s", r.text.String())
		return "", false
	}
}

// until reads up to a line that contains text.
func (r *running) until(text string) *running {
	r.t.Helper()
	for {
		line, ok := r.next()
		require.True(r.t, ok, "svc never said %q but:\n%s", text, r.text.String())
		if strings.Contains(line, text) {
			return r
		}
	}
}

// awaitUp reads until everything runs.
func (r *running) awaitUp() *running { return r.until("Ctrl-C stops it") }

// wait waits for svc's end and returns its exit code and all its output.
func (r *running) wait() (int, string) {
	r.t.Helper()
	for {
		if _, ok := r.next(); !ok {
			break
		}
	}
	_ = r.cmd.Wait() // the exit code is in ProcessState
	return r.cmd.ProcessState.ExitCode(), r.text.String()
}

// stop sends a Ctrl-C.
func (r *running) stop() (int, string) {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(syscall.SIGINT))
	return r.wait()
}

// requireGone waits until every process of svc has ended, including PostgreSQL's.
func (s *site) requireGone(t *testing.T, r *running) {
	t.Helper()
	for name, pid := range r.pids {
		require.Eventually(t, func() bool { return !alive(pid) }, testTimeout, 5*time.Millisecond, name)
	}
	require.Eventually(t, func() bool { return commandsNaming(s.data) == 0 }, testTimeout, 5*time.Millisecond, "PostgreSQL")
}

// alive counts a zombie, which a container may never reap, as gone, unless it has threads that
// still run ("l").
func alive(pid int) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	state := bytes.TrimSpace(out)
	return err == nil && (!bytes.HasPrefix(state, []byte("Z")) || bytes.ContainsRune(state, 'l'))
}

// commandsNaming counts the processes whose command line contains text.
func commandsNaming(text string) int {
	out, err := exec.Command("ps", "-A", "-o", "args=").Output()
	if err != nil {
		panic(fmt.Sprint("ps: ", err))
	}
	return strings.Count(string(out), text)
}

// readCalls returns the recorded calls of svc-db.
func (s *site) readCalls(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.calls)
	require.NoError(t, err)
	return string(text)
}
