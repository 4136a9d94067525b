//go:build linux

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// many starts processes until it may not.
const many = "i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); done; echo all"

func TestProcessesAreLimited(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind, func(c *Config) { c.Limits.Processes = 100 })
		if j.group == nil {
			return // an ordinary user without control groups; see the next test
		}
		r, out := j.sh(t, many)
		require.NotZero(t, r.ExitCode)
		require.Contains(t, out, "fork")
		require.NotContains(t, out, "all")
		require.Empty(t, alive(j.Name))
		r, out = j.sh(t, "sleep 0 & wait; echo fine")
		require.Zero(t, r.ExitCode, "the next step: %s", out)
		unlimited := job(t, kind)
		r, out = unlimited.sh(t, many)
		require.Zero(t, r.ExitCode, out)
		text, err := os.ReadFile(unlimited.group.processes)
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(DefaultProcesses), strings.TrimSpace(string(text)))
	})
}

// Without control groups, the processes of the user are limited.
func TestProcessesOfUserAreLimited(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	makeAccessible(t, base)
	for i, kind := range []string{None, Bubblewrap} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "run-a-step", kind, filepath.Join(base, "limited-"+kind), many)
		cmd.Env = append(os.Environ(), "PROCESSES=100")
		if os.Geteuid() == 0 {
			id := uint32(60_000 + i) // which has no other processes
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
		}
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "fork")
	}
}

// A job is killed as a group: also what left the descent of its first process, and groups below.
func TestJobIsKilledAsGroup(t *testing.T) {
	t.Parallel()
	j := job(t, None)
	if j.group == nil {
		return // an ordinary user without control groups
	}
	outsider := exec.CommandContext(t.Context(), "sleep", "600")
	require.NoError(t, outsider.Start())
	below := filepath.Join(j.group.folders[0], "below")
	require.NoError(t, os.Mkdir(below, 0o750))
	pid := []byte(strconv.Itoa(outsider.Process.Pid))
	require.NoError(t, os.WriteFile(filepath.Join(below, "cgroup.procs"), pid, 0))
	require.True(t, j.group.kill())
	require.Error(t, outsider.Wait())
	require.NoError(t, j.Remove())
	require.NoDirExists(t, below)
	require.NoDirExists(t, j.group.folders[0])
	r, err := New(j.Config)
	require.NoError(t, err, "the name is free again")
	*j = *r
}

func TestGroupsOfEveryJob(t *testing.T) {
	t.Parallel()
	h := hierarchy{memory: t.TempDir(), pids: t.TempDir()} // in which anything can be written
	g := h.newGroup("one", Limits{Processes: 7})
	require.NotNil(t, g, "a job without limits has a group too, to be killed by")
	text, err := os.ReadFile(filepath.Join(h.pids, groupPrefix+"one", "pids.max"))
	require.NoError(t, err)
	require.Equal(t, "7", string(text))
	require.Len(t, h.leftover("one").folders, 2)
	v2 := hierarchy{v2: t.TempDir()}
	require.NotNil(t, v2.newGroup("two", Limits{MemoryBytes: 1 << 20, Processes: 9}))
	for file, want := range map[string]string{"pids.max": "9", "memory.max": "1048576", "cpu.max": "max 100000"} {
		text, err := os.ReadFile(filepath.Join(v2.v2, groupPrefix+"two", file))
		require.NoError(t, err)
		require.Equal(t, want, string(text), file)
	}
	require.Nil(t, hierarchy{}.newGroup("three", Limits{}))
	require.Equal(t, "memory (control groups, version 1), processors are not limited, processes (control groups, version 1)", h.describe(true))
	require.Contains(t, hierarchy{}.describe(false), "processes of all jobs together (RLIMIT_NPROC)")
	require.Contains(t, hierarchy{}.describe(true), "the number of processes is not limited")
}

func TestChildrenKillWhatTheyHaveNotStarted(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "adopt")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "own child goes on\n", string(out))
}

// adopt is a process that adopts an orphan beside a child of its own.
func adopt() int {
	var c Children
	own := exec.CommandContext(context.Background(), "sleep", "600")
	parent := exec.CommandContext(context.Background(), "sh", "-c",
		"setsid env -i sh -c 'trap \"\" TERM; sleep 600; sleep 600' >/dev/null 2>&1 &")
	if c.Adopt() != nil || c.Start(own) != nil || c.Start(parent) != nil || c.Wait(parent) != nil {
		return 1
	}
	if c.KillAdopted() == 0 || own.Process.Signal(syscall.Signal(0)) != nil || c.KillAdopted() != 0 || len(descendants(os.Getpid())) != 1 {
		return 1
	}
	_, _ = os.Stdout.WriteString("own child goes on\n")
	_ = own.Process.Kill()
	_ = c.Wait(own)
	return 0
}
