//go:build linux

package run

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"svc/test/leak"
)

const (
	sharedDirVar = "SVC_RUN_SHARED" // names the sharedDir of the process that started this one
	noMountsVar  = "SVC_RUN_NO_MOUNTS"
)

// inOwnProcess runs the test again in a process of its own, and reports whether this is that
// process. There all goroutines belong to the test, so a leak is detected, and its mounts are
// invisible to others and end with it.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(sharedDirVar) != "" {
		before := goleak.IgnoreCurrent()
		t.Cleanup(func() {
			httpClient.CloseIdleConnections()
			leak.None(t, before)
		})
		return true
	}
	seededData(t)
	out, err := rerunTest(t, os.Environ(), ownMountNamespace())
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
		out, err = rerunTest(t, append(os.Environ(), noMountsVar+"=1"), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
	}
	if testing.Verbose() {
		require.NoError(t, err) // its output was printed already
	}
	require.NoError(t, err, "%s", out)
	if _, skipped, found := strings.Cut(out, diskNotFilled); found {
		skipped, _, _ = strings.Cut(skipped, "\n")
		t.Log(diskNotFilled + skipped)
	}
	return false
}

// ownMountNamespace gives a process its own mount namespace and the right to mount: root has
// it, others get it in a user namespace that maps only their own ids.
func ownMountNamespace() *syscall.SysProcAttr {
	const capSysAdmin = 21 // of capabilities(7)
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: syscall.CLONE_NEWNS}
	if uid := os.Geteuid(); uid != 0 {
		a.Unshareflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		a.AmbientCaps = []uintptr{capSysAdmin}
	}
	return a
}

// rerunTest runs this test in another process and returns its output.
func rerunTest(t *testing.T, environ []string, attributes *syscall.SysProcAttr) (string, error) {
	t.Helper()
	runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
	defer runtime.UnlockOSThread()
	args := []string{"-test.run=^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$", "-test.count=1"}
	if late, ok := t.Deadline(); ok {
		const margin = 5 * time.Second // to print the stacks if it hangs
		args = append(args, "-test.timeout="+(time.Until(late)-margin).String())
	}
	var out bytes.Buffer
	var to io.Writer = &out
	if testing.Verbose() {
		args, to = append(args, "-test.v"), io.MultiWriter(&out, os.Stdout)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(environ, sharedDirVar+"="+sharedDir)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = to, to, attributes
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	return out.String(), err
}
