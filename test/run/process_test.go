//go:build linux

package run

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process is a running program. It leads a process group, as a command does
// that is typed into a terminal.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   output
	ended chan struct{} // closed when it has ended and all its output is here
}

// start runs a program as user, or as ourselves if that is nil, until t ends,
// with environ and no other environment.
func start(t *testing.T, user *syscall.Credential, environ []string, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(filepath.Join(programs, program), args...), ended: make(chan struct{})}
	p.out.news = make(chan struct{})
	p.cmd.Env = append([]string{"GORACE=halt_on_error=1 atexit_sleep_ms=0"}, environ...)
	p.cmd.Dir = "/"
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = 5 * time.Second // for output that a grandchild keeps open
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user, Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	go func() { // ends with the program
		runtime.LockOSThread() // the program ends with the thread that started it
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // ProcessState says how it ended
			close(p.ended)
		}
	}()
	require.NoError(t, <-started)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			p.tellErrors()
		}
		require.NotContains(t, p.out.String(), "DATA RACE")
		require.NotContains(t, p.out.String(), "panic")
	})
	return p
}

// tellErrors logs the errors that the process wrote, for whoever reads of a
// failed test what the answers keep to themselves.
func (p *process) tellErrors() {
	for line := range strings.Lines(p.out.String()) {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "level=ERROR") || strings.HasPrefix(line, "ERROR: ") {
			p.t.Logf("%s: %s", filepath.Base(p.cmd.Path), line)
		}
	}
}

// until waits until the process has said text.
func (p *process) until(text string) *process {
	p.t.Helper()
	late := time.After(patience)
	for {
		news := p.out.next()
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

// wait waits until the process has ended by itself, and returns its exit
// status and what it said.
func (p *process) wait() (int, string) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.FailNow(p.t, "still running", "it said:\n%s", p.out.String())
	}
	return p.cmd.ProcessState.ExitCode(), p.out.String()
}

// ctrlC sends what a terminal sends to the command in its foreground, and
// waits for the end.
func (p *process) ctrlC() (int, string) {
	p.t.Helper()
	require.NoError(p.t, syscall.Kill(-p.pid(), syscall.SIGINT))
	return p.wait()
}

// kill is kill -9, if it has not ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// output is what a process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	news chan struct{} // closed and replaced at each write
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.news)
	o.news = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// next is closed at the next write.
func (o *output) next() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.news
}
