//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain is also the main function of a step's first process, and of a process that runs a step
// and is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == InitCommand {
		os.Exit(Init(os.Args[2:]))
	}
	if len(os.Args) == 5 && os.Args[1] == "run-a-step" {
		os.Exit(runAStep(os.Args[2], os.Args[3], os.Args[4]))
	}
	if len(os.Args) == 2 && os.Args[1] == "adopt" {
		os.Exit(adopt())
	}
	if len(os.Args) == 3 && os.Args[1] == "remove-all" {
		os.Exit(removeAll(os.Args[2]))
	}
	os.Exit(m.Run())
}

func runAStep(kind, dir, script string) int {
	if err := Adopt(); err != nil {
		return 1
	}
	processes, _ := strconv.Atoi(os.Getenv("PROCESSES")) // 0 is the default
	j, err := New(Config{Name: filepath.Base(dir), Dir: dir, Program: "/proc/self/exe", Kind: kind, Limits: Limits{Processes: processes}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	r, err := j.Run(context.Background(), context.Background(), Command{Args: []string{"/bin/sh", "-c", script}, Env: j.Env(),
		Output: os.Stdout})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return r.ExitCode
}

const waitLimit = 20 * time.Second

// Without bubblewrap, the sandbox that jobs should use is not tested.
func TestBubblewrapWorksHere(t *testing.T) {
	t.Parallel()
	err := Probe(t.Context(), Config{Dir: t.TempDir(), Program: "/proc/self/exe", Kind: Bubblewrap})
	require.NoError(t, err, "make bubblewrap-check installs it")
}

func job(t *testing.T, kind string, change ...func(*Config)) *Job {
	c := Config{Name: "test-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36),
		Dir:     filepath.Join(t.TempDir(), "job"),
		Program: "/proc/self/exe", Kind: kind}
	for _, f := range change {
		f(&c)
	}
	j, err := New(c)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, j.Remove())
		require.NoDirExists(t, c.Dir)
	})
	return j
}

func (j *Job) sh(t *testing.T, script string, env ...string) (Result, string) {
	var out bytes.Buffer
	r, err := j.Run(t.Context(), t.Context(), Command{Args: []string{"/bin/sh", "-c", script}, Env: append(j.Env(), env...), Output: &out})
	require.NoError(t, err)
	return r, out.String()
}

func eachKind(t *testing.T, test func(*testing.T, string)) {
	t.Parallel()
	for _, kind := range []string{None, Bubblewrap} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// A job without a checkout is in no repository, although the folder of its runner may be in one.
func TestStepsAreInNoRepositoryOfTheMachine(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		out, err := exec.CommandContext(t.Context(), "git", "init", "-q", filepath.Dir(j.Dir)).CombinedOutput()
		require.NoError(t, err, "%s", out)
		r, said := j.sh(t, "git rev-parse --show-toplevel")
		require.Equal(t, 128, r.ExitCode, said)
	})
}

func TestStepResult(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		r, out := j.sh(t, "echo $GREETING; echo bad >&2; echo kept >file; echo kept >$HOME/file; echo kept >$TMPDIR/file; exit 3",
			"GREETING=hello")
		require.Equal(t, "hello\nbad\n", out)
		require.Equal(t, 3, r.ExitCode)
		require.Empty(t, r.Signal)
		require.Nil(t, r.Stopped)
		require.Positive(t, r.MaxRSS)
		require.FileExists(t, filepath.Join(j.Work(), "file"))
		_, out = j.sh(t, "cat file $HOME/file $TMPDIR/file")
		require.Equal(t, "kept\nkept\nkept\n", out, "what a step leaves in files the next one has")
		_, out = j.sh(t, "env | sort")
		for _, name := range []string{"GREETING", "GOCACHE", "SSH", "INVOCATION_ID"} {
			require.NotContains(t, out, name, "the runner's own environment is not inherited")
		}
		r, _ = j.sh(t, "kill -SEGV $$")
		require.Equal(t, 128+11, r.ExitCode)
		require.Equal(t, "SIGSEGV", r.Signal)
		r, out = j.sh(t, "read x; echo at the end: $?")
		require.Equal(t, "at the end: 1\n", out, "nothing is typed")
		require.Zero(t, r.ExitCode)
	})
}

// A script may have 64 KiB, and each < takes six bytes in the JSON of the spec.
func TestLongScript(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		script := "ls -l /proc/$$/fd >fds; grep memfd:spec fds\n#" + strings.Repeat("<", 64<<10-20) + "\necho done"
		r, out := job(t, kind).sh(t, script)
		require.Zero(t, r.ExitCode, out)
		require.Equal(t, "done\n", out, "nor does the step have the file open")
	})
}

func TestMissingProgram(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		var out bytes.Buffer
		r, err := j.Run(t.Context(), t.Context(), Command{Args: []string{"no-such-program"}, Env: j.Env(), Output: &out})
		require.NoError(t, err)
		require.NotZero(t, r.ExitCode)
		require.Contains(t, out.String(), "no-such-program")
	})
}

// alive returns the processes with text in their command line or environment.
func alive(text string) (list []int) {
	for _, p := range processes() {
		cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if !p.dead && p.pid != os.Getpid() && (bytes.Contains(cmd, []byte(text)) || bytes.Contains(env, []byte(text))) {
			list = append(list, p.pid)
		}
	}
	return list
}

// escapees starts processes in the background, in other sessions, orphaned twice, and without environment.
const escapees = `
sleep 600 &
setsid sleep 600 &
(setsid sh -c 'trap "" TERM HUP; sleep 600 & exec env -i sleep 600' &)
setsid sh -c '(setsid env -i NAME=$NAME sh -c "trap \"\" TERM; while :; do sleep 1; done" &)' &
`

func TestNothingOutlivesAStep(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		r, out := j.sh(t, "exec 2>/dev/null\n"+escapees+"echo done") // those that are just starting may tell that they cannot fork
		require.Zero(t, r.ExitCode)
		require.Equal(t, "done\n", out)
		require.Empty(t, alive(j.Name))
	})
}

// A watched closes seen when text has been written to it.
type watched struct {
	got  bytes.Buffer
	seen chan struct{}
	text string
}

func (w *watched) String() string { return w.got.String() }

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.got.Write(p)
	if w.seen != nil && strings.Contains(w.String(), w.text) {
		close(w.seen)
		w.seen = nil
	}
	return n, err
}

func stopped(t *testing.T, j *Job, script string, order *Stop, force bool) (Result, string, time.Duration) {
	graceful, stop := context.WithCancelCause(t.Context())
	ctx, kill := context.WithCancelCause(t.Context())
	defer stop(nil)
	defer kill(nil)
	seen := make(chan struct{})
	out := &watched{seen: seen, text: "ready"}
	var since time.Time
	go func() {
		<-seen
		since = time.Now()
		if force {
			kill(order)
		} else {
			stop(order)
		}
	}()
	r, err := j.Run(ctx, graceful, Command{Args: []string{"/bin/sh", "-c", script}, Env: append(j.Env(), "NAME="+j.Name), Output: out})
	require.NoError(t, err)
	return r, out.String(), time.Since(since)
}

func TestCancelSendsSIGTERMFirst(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		order := &Stop{Reason: "cancel", Grace: time.Minute}
		r, out, took := stopped(t, j, "trap 'echo cleaned; exit 7' TERM; sleep 600 & echo ready; wait", order, false)
		require.Equal(t, "ready\ncleaned\n", out)
		require.Equal(t, 7, r.ExitCode)
		require.Equal(t, order, r.Stopped)
		require.Less(t, took, waitLimit)
		require.Empty(t, alive(j.Name))
		r, _, took = stopped(t, j, "echo ready; sleep 600", order, false)
		require.Equal(t, "SIGTERM", r.Signal, "what does nothing about it ends by it")
		require.Less(t, took, waitLimit)
	})
}

func TestCancelKillsAfterGracePeriod(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		const grace = 500 * time.Millisecond
		r, _, took := stopped(t, j, escapees+"trap '' TERM; echo ready; while :; do sleep 1; done", &Stop{Reason: "cancel", Grace: grace}, false)
		require.Equal(t, "SIGKILL", r.Signal)
		require.Equal(t, "cancel", r.Stopped.Reason)
		require.GreaterOrEqual(t, took, grace)
		require.Less(t, took, waitLimit)
		require.Empty(t, alive(j.Name))
	})
}

func TestFencedStepIsKilledAtOnce(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		r, _, took := stopped(t, j, escapees+"trap '' TERM; echo ready; while :; do sleep 1; done",
			&Stop{Reason: "fenced", Grace: time.Hour}, true)
		require.Equal(t, "fenced", r.Stopped.Reason)
		require.Equal(t, "SIGKILL", r.Signal)
		require.Less(t, took, waitLimit)
		require.Empty(t, alive(j.Name))
	})
}

// A stop that comes before the step has started still ends it.
func TestStopBeforeStepStarts(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		graceful, stop := context.WithCancelCause(t.Context())
		stop(&Stop{Reason: "step_timeout", Grace: time.Minute})
		r, err := j.Run(t.Context(), graceful, Command{Args: []string{"/bin/sleep", "600"}, Env: j.Env(), Output: &bytes.Buffer{}})
		require.NoError(t, err)
		require.Equal(t, "step_timeout", r.Stopped.Reason)
	})
}

// The process that runs the steps is killed, as the whole runner may be.
func TestNothingOutlivesTheRunner(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		base := t.TempDir()
		dir := filepath.Join(base, "killed-"+strconv.FormatInt(time.Now().UnixNano(), 36))
		// As root, also as another user: without a PID namespace of its own.
		for _, nobody := range []bool{false, true} {
			if nobody && os.Geteuid() != 0 {
				break
			}
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "run-a-step", kind, dir,
				"export NAME="+filepath.Base(dir)+escapees+"echo ready; sleep 600")
			if nobody {
				dir += "-nobody"
				cmd.Args[3] = dir
				cmd.Args[4] = "export NAME=" + filepath.Base(dir) + escapees + "echo ready; sleep 600"
				makeAccessible(t, base)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			}
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			line := make([]byte, 100)
			n, err := out.Read(line)
			require.NoError(t, err)
			require.Equal(t, "ready\n", string(line[:n]))
			require.NotEmpty(t, alive(filepath.Base(dir)))
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			require.Eventually(t, func() bool { return len(alive(filepath.Base(dir))) == 0 }, waitLimit, 10*time.Millisecond, kind)
		}
	})
}

// makeAccessible gives everybody access to base, so that another user can create folders there.
func makeAccessible(t *testing.T, base string) {
	require.NoError(t, os.Chmod(base, 0o777))
	for dir := filepath.Dir(base); dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
}

func TestSweepFindsWhatHasTheMarker(t *testing.T) {
	t.Parallel()
	name := "sweep-" + strconv.Itoa(os.Getpid())
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.Env = []string{Marker + "=" + name}
	other := exec.CommandContext(t.Context(), "sleep", "600")
	other.Env = []string{Marker + "=" + name + "2"}
	require.NoError(t, cmd.Start())
	require.NoError(t, other.Start())
	require.Eventually(t, func() bool { return Sweep(name) > 0 }, waitLimit, time.Millisecond)
	require.Error(t, cmd.Wait())
	require.NoError(t, other.Process.Signal(syscall.Signal(0)))
	require.NoError(t, other.Process.Kill())
	require.Error(t, other.Wait())
}

func TestMemoryIsLimited(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind, func(c *Config) { c.Limits = Limits{MemoryBytes: 64 << 20, CPUs: 1} })
		r, out := j.sh(t, "head -c 300000000 /dev/zero | tail >/dev/null; echo $?")
		require.NotEqual(t, "0\n", out)
		require.Less(t, r.MaxRSS, int64(100<<20))
		if j.group != nil {
			require.True(t, r.OOM)
		}
		r, out = j.sh(t, "echo fine")
		require.Equal(t, "fine\n", out)
		require.False(t, r.OOM, "of the step before")
		require.Zero(t, r.ExitCode)
	})
}

func TestBubblewrapHidesTheMachine(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("key"), 0o644))
	j := job(t, Bubblewrap)
	_, out := j.sh(t, "cat "+outside+" || echo none; pwd; id -u; ls /run /root /home /etc/shadow 2>&1; tail -n +3 /proc/net/dev "+
		"| wc -l; ps ax | wc -l")
	require.Contains(t, out, "none\n/work\n65534\n")
	require.Contains(t, out, "cannot access '/run'")
	require.Contains(t, out, "cannot access '/root'")
	require.Contains(t, out, "/home:\nrunner\n")
	require.Contains(t, out, "cannot access '/etc/shadow'")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Equal(t, "1", lines[len(lines)-2], "the loopback alone")
	for _, script := range []string{"touch /file", "touch /usr/file", "mount -t tmpfs none /tmp", "unshare -U true", "chroot / true"} {
		r, out := j.sh(t, script)
		require.NotZero(t, r.ExitCode, "%s: %s", script, out)
	}
	shared := job(t, Bubblewrap, func(c *Config) { c.HostNetwork = true })
	own, err := os.ReadFile("/proc/net/dev")
	require.NoError(t, err)
	_, out = shared.sh(t, "cat /proc/net/dev | wc -l")
	require.Equal(t, fmt.Sprintln(strings.Count(string(own), "\n")), out, "the machine's own network")
}

func TestMountsOfRunnerFolderAreRefused(t *testing.T) {
	t.Parallel()
	own := t.TempDir()
	require.NoError(t, CheckMounts(nil, own))
	require.NoError(t, CheckMounts([]string{"/etc"}, own))
	for _, m := range []string{own, filepath.Dir(own), "/", "relative", "/no/such"} {
		require.Error(t, CheckMounts([]string{m}, own), m)
	}
	require.Error(t, CheckMounts(nil, "/usr/share"))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(own, link))
	require.Error(t, CheckMounts([]string{link}, own))
}

func TestUnknownKinds(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Dir: filepath.Join(t.TempDir(), "job"), Kind: "podman"})
	require.ErrorContains(t, err, "podman")
}
