//go:build linux

package runner

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/identity"
	"svc/farm/wire"
)

// A program is an installed svc-runner.
type program struct {
	t      *testing.T
	path   string
	data   string
	nobody bool // run as another user than root
}

func build(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "svc-runner")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, "svc/cmd/svc-runner").CombinedOutput()
	require.NoError(t, err, string(out))
	for dir := filepath.Dir(path); dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755)) // for everybody, as in /usr/local/bin
	}
	return path
}

func (p program) command(environ []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), p.path, args...)
	cmd.Dir = filepath.Dir(p.data) // a relative folder works too
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "SVC_RUNNER_DATA_DIR=" + filepath.Base(p.data)}, environ...)
	if p.nobody {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return cmd
}

// run runs a command to its end, and checks its exit status.
func (p program) run(status int, environ []string, args ...string) string {
	p.t.Helper()
	cmd := p.command(environ, args...)
	out, _ := cmd.CombinedOutput()
	require.Equal(p.t, status, cmd.ProcessState.ExitCode(), string(out))
	return string(out)
}

const openFileText = "text of a file that was open when the program started"

// openFile returns a file with openFileText.
func (p program) openFile() string {
	file := filepath.Join(p.t.TempDir(), "open")
	require.NoError(p.t, os.WriteFile(file, []byte(openFileText), 0o600))
	return file
}

// start starts svc-runner run, and kills it at the end of the test.
func (p program) start(environ ...string) *exec.Cmd {
	cmd := p.command(environ, "run", "-min-disk-mib=1")
	var out lines
	cmd.Stdout, cmd.Stderr = &out, &out
	key, err := os.Open(p.openFile())
	require.NoError(p.t, err)
	defer key.Close()
	cmd.ExtraFiles = slices.Repeat([]*os.File{key}, 7) // 3 to 9
	require.NoError(p.t, cmd.Start())
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p.t.Failed() {
			p.t.Log(out.String())
		}
	})
	return cmd
}

// processesWith returns the processes with text in their environment or arguments.
func processesWith(text string) (list []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		cmd, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		dead := strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z")
		if bytes.Contains(append(env, cmd...), []byte(text)) && !dead && dir != fmt.Sprintf("/proc/%d", os.Getpid()) {
			list = append(list, string(bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
		}
	}
	return list
}

// The program is enrolled, goes online, is killed in the middle of a job, started again, and
// stopped.
func TestProgram(t *testing.T) {
	t.Parallel()
	path := build(t)
	for _, nobody := range []bool{false, true} {
		if nobody && os.Geteuid() != 0 {
			continue // the first round runs as an ordinary user
		}
		t.Run(fmt.Sprintf("nobody=%v", nobody), func(t *testing.T) {
			t.Parallel()
			useProgram(t, path, nobody)
		})
	}
}

func useProgram(t *testing.T, path string, nobody bool) {
	f := newFarm(t)
	base := t.TempDir()
	p := program{t: t, path: path, data: filepath.Join(base, "data"), nobody: nobody}
	require.NoError(t, os.Chmod(base, 0o777))
	for dir := filepath.Dir(base); dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	ca := filepath.Join(base, "ca.pem")
	text, err := os.ReadFile(f.caFile())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(ca, text, 0o644))

	require.Contains(t, p.run(1, nil, "status"), "not enrolled")
	out := p.run(0, []string{"SVC_ENROLL_TOKEN=tok_enr_marker"}, "enroll", "--url", f.server.URL, "--server-ca", ca, "--name", "builder-1")
	require.Contains(t, out, "enrolled as builder-1")
	require.Contains(t, p.run(1, nil, "status"), "does not run")
	require.NotContains(t, p.run(1, []string{"SVC_ENROLL_TOKEN=tok_enr_marker"}, "enroll", "-url", f.server.URL), "marker")

	cmd := p.start()
	require.Eventually(t, f.check(func() bool { return len(f.beats) > 0 }), waitLimit, 1e6)
	require.Contains(t, p.run(0, nil, "status"), "online since")
	require.Contains(t, p.run(0, nil, "doctor"), "ok  client certificate")
	k := f.assign(wire.Assign{Secrets: map[string]string{"S": "secret-of-the-job"},
		Steps: steps("(setsid sh -c 'trap \"\" TERM; sleep 600 & sleep 600' &); setsid sleep 600 & echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, 1e6)
	require.NotEmpty(t, processesWith(k.name()))
	require.Empty(t, filesWith(t, p.data, "secret-of-the-job"))
	require.Empty(t, filesWith(t, p.data, "tok_enr_marker"))

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return len(processesWith(k.name())) == 0 }, waitLimit, 1e7, "%v", processesWith(k.name()))

	notified := listenNotify(t, base)
	cmd = p.start("NOTIFY_SOCKET="+filepath.Join(base, "notify"), "WATCHDOG_USEC=200000")
	end := f.ended(k)
	require.Equal(t, "agent_restarted", end.Reason)
	require.Equal(t, "READY=1", notified())
	require.Contains(t, notified(), "WATCHDOG=1")
	for _, kind := range []string{"none", "bubblewrap"} {
		k := f.assign(wire.Assign{Sandbox: wire.Sandbox{Kind: kind},
			Steps: steps(`for n in $(seq 3 30); do timeout 5 cat /proc/self/fd/$n </dev/null 2>/dev/null || :; done; echo read`)})
		require.Equal(t, "succeeded", f.ended(k).Outcome)
		require.Contains(t, f.log(k), "read\n")
		require.NotContains(t, f.log(k), openFileText, kind)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
	for beat := notified(); beat != "STOPPING=1"; beat = notified() {
		require.Contains(t, beat, "WATCHDOG=1")
	}
	if nobody {
		require.NoError(t, os.Chmod(base, 0o755)) // as /var/lib, from which it cannot remove its folder
	}
	require.Contains(t, p.run(0, nil, "uninstall"), "removed")
	if nobody {
		require.NoError(t, os.Remove(p.data), "it is empty")
	}
	require.NoDirExists(t, p.data)
}

// Another version that is put in the program's place while it runs takes no part in jobs.
func TestUpgradeWhileRunning(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	p := program{t: t, path: build(t), data: string(f.enrolled())}
	p.start()
	next := p.path + ".new"
	require.NoError(t, os.WriteFile(next, []byte("#!/bin/sh\nexit 3\n"), 0o700))
	require.Equal(t, "succeeded", f.ended(f.assign(wire.Assign{Steps: steps("mv "+next+" "+p.path, "true")})).Outcome)
	for _, kind := range []string{"none", "bubblewrap"} {
		require.Equal(t, "succeeded", f.ended(f.assign(wire.Assign{Sandbox: wire.Sandbox{Kind: kind}, Steps: steps("true", "true")})).Outcome)
	}
}

// A systemd socket whose queue is full does not block the runner.
func TestFullNotifySocketDoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	require.NoError(t, err)
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "notify"))
	full := make(chan struct{})
	go func() {
		defer close(full)
		for began := time.Now(); time.Since(began) < notifyTimeout; {
			began = time.Now()
			notify("WATCHDOG=1")
		}
	}()
	select {
	case <-full:
	case <-time.After(waitLimit):
		require.Fail(t, "it waits for ever")
	}
}

// listenNotify plays systemd: each call returns the next notification.
func listenNotify(t *testing.T, dir string) func() string {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	require.NoError(t, err)
	require.NoError(t, os.Chmod(filepath.Join(dir, "notify"), 0o777))
	t.Cleanup(func() { _ = conn.Close() })
	told := make(chan string, 10_000) // as in systemd, messages are queued until read
	go func() {
		defer close(told)
		for b := make([]byte, 1000); ; {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			told <- string(b[:n])
		}
	}()
	return func() string {
		text, ok := <-told
		require.True(t, ok)
		return text
	}
}

func filesWith(t *testing.T, dir, text string) (list []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(text)) {
				list = append(list, path)
			}
		}
		return nil
	}))
	return list
}

// Killing the process of a job affects only that job.
func TestKilledProcessEndsOnlyItsJob(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	other := f.assign(wire.Assign{Steps: steps("while [ ! -e ../go ]; do sleep 0.05; done")})
	k := f.assign(wire.Assign{Steps: steps("echo ready; setsid sleep 600 & kill -9 $PPID; exit 1", "echo second")})
	killed := f.assign(wire.Assign{Steps: steps("echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(killed), "ready") }, waitLimit, 1e6)
	pids, err := exec.CommandContext(t.Context(), "sh", "-c",
		"for p in /proc/[0-9]*; do if tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -q ' exec $' && "+
			"tr '\\0' '\\n' <$p/environ 2>/dev/null | grep -q "+killed.name()+"; then basename $p; fi; done").Output()
	require.NoError(t, err)
	require.NotEmpty(t, strings.TrimSpace(string(pids)))
	require.NoError(t, exec.CommandContext(t.Context(), "kill", "-9", strings.TrimSpace(string(pids))).Run())
	end := f.ended(killed)
	require.Equal(t, "infra", end.Outcome)
	require.Equal(t, "agent_crashed", end.Reason)
	f.ended(k) // their step killed its first process, or tried to
	require.Eventually(t, func() bool { return len(processesWith(k.name())) == 0 && len(processesWith(killed.name())) == 0 }, waitLimit, 1e7)
	require.NoError(t, os.WriteFile(r.s.cfg.Folder.Path(identity.WorkFolder, other.name(), "go"), nil, 0o600))
	require.Equal(t, "succeeded", f.ended(other).Outcome)
	r.requireNoJobs()
}
