//go:build linux

package run

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/test/child"
)

// A process is a running program. It leads its own process group, like a command typed into
// a terminal.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   output
	ended <-chan struct{} // closed when it has ended and its output is complete
}

// start runs a program until t ends, as user unless that is nil, with no other environment
// than environ.
func start(t *testing.T, user *syscall.Credential, environ []string, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(filepath.Join(programs, program), args...)}
	p.out.changed = make(chan struct{})
	p.cmd.Env = append([]string{"GORACE=halt_on_error=1 atexit_sleep_ms=0"}, environ...)
	p.cmd.Dir = "/"
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = 5 * time.Second // a grandchild may keep the output open
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user}
	var err error
	p.ended, err = child.Start(p.cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			p.logErrors()
		}
		require.NotContains(t, p.out.String(), "DATA RACE")
		require.NotContains(t, p.out.String(), "panic")
	})
	return p
}

// logErrors logs the errors that the process wrote. HTTP answers do not contain them.
func (p *process) logErrors() {
	for line := range strings.Lines(p.out.String()) {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "level=ERROR") || strings.HasPrefix(line, "ERROR: ") {
			p.t.Logf("%s: %s", filepath.Base(p.cmd.Path), line)
		}
	}
}

// waitForOutput waits until the output of the process contains text.
func (p *process) waitForOutput(text string) *process {
	p.t.Helper()
	late := time.After(waitLimit)
	for {
		news := p.out.nextWrite()
		if strings.Contains(p.out.String(), text) {
			return p
		}
		select {
		case <-news:
		case <-p.ended:
			require.Contains(p.t, p.out.String(), text, "it has ended")
			return p
		case <-late:
			require.FailNow(p.t, "not said in time: "+text, "it said:\n%s", p.out.String())
		}
	}
}

// wait waits until the process has ended by itself, and returns its exit status and its
// output.
func (p *process) wait() (int, string) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(waitLimit):
		require.FailNow(p.t, "still running", "it said:\n%s", p.out.String())
	}
	return p.cmd.ProcessState.ExitCode(), p.out.String()
}

// ctrlC sends SIGINT to the process group, as a terminal does, and waits for the end.
func (p *process) ctrlC() (int, string) {
	p.t.Helper()
	require.NoError(p.t, syscall.Kill(-p.pid(), syscall.SIGINT))
	return p.wait()
}

// kill kills the process with SIGKILL unless it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// An output collects what a process writes.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced at each write
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// nextWrite returns a channel that is closed at the next write.
func (o *output) nextWrite() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}
