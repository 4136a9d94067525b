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
	sharedBy = "SVC_RUN_SHARED" // the folder of the process that started this one
	noMounts = "SVC_RUN_NO_MOUNTS"
)

// What toxiproxy leaves behind when the far end of a connection is gone while
// bytes are on their way: io.Copy to it returns, nobody drains the channel
// between, and whoever sends into that waits for ever (link.go, noop.go of v2.5.0).
var (
	wiresLeft = goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run")
	wiresRead = goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read")
)

// alone has a test run once more, in a process of its own, and reports whether
// this is that process: all goroutines there are the test's, so that none may be
// left, and the mounts that it makes are seen by nobody else and end with it.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(sharedBy) != "" {
		before := goleak.IgnoreCurrent()
		t.Cleanup(func() {
			browser.CloseIdleConnections()
			leak.None(t, before, wiresLeft, wiresRead)
		})
		return true
	}
	seeded(t)
	out, err := again(t, os.Environ(), ownMounts())
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
		out, err = again(t, append(os.Environ(), noMounts+"=1"), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
	}
	if testing.Verbose() {
		require.NoError(t, err) // all was shown
	}
	require.NoError(t, err, "%s", out)
	if _, skipped, found := strings.Cut(out, noDisk); found {
		skipped, _, _ = strings.Cut(skipped, "\n")
		t.Log(noDisk + skipped)
	}
	return false
}

// ownMounts gives a process mounts of its own, and the power to make some:
// root has it, others get it in a user namespace, in which they stay who they are.
func ownMounts() *syscall.SysProcAttr {
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

// again runs this very test in another process.
func again(t *testing.T, environ []string, attributes *syscall.SysProcAttr) (string, error) {
	t.Helper()
	runtime.LockOSThread() // the process ends with the thread that started it
	defer runtime.UnlockOSThread()
	args := []string{"-test.run=^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$", "-test.count=1"}
	if late, ok := t.Deadline(); ok {
		const toTell = 5 * time.Second // where it hung
		args = append(args, "-test.timeout="+(time.Until(late)-toTell).String())
	}
	var out bytes.Buffer
	var to io.Writer = &out
	if testing.Verbose() {
		args, to = append(args, "-test.v"), io.MultiWriter(&out, os.Stdout)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(environ, sharedBy+"="+shared)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = to, to, attributes
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	return out.String(), err
}
