package api

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/test/child"
)

// timeout bounds every wait. It is long enough for a busy machine.
const timeout = 2 * time.Minute

// A process is a running program.
type process struct {
	cmd   *exec.Cmd
	out   output
	ended <-chan struct{} // closed after exit, when all output has been read
}

// start runs a program of the fixture until t ends, with environ as its whole environment.
func (s *fixture) start(t *testing.T, program string, environ []string, args ...string) *process {
	t.Helper()
	return s.startCommand(t, exec.Command(s.program(program), args...), environ)
}

// startCommand runs cmd until t ends, with environ as its whole environment.
func (s *fixture) startCommand(t *testing.T, cmd *exec.Cmd, environ []string) *process {
	t.Helper()
	p := &process{cmd: cmd, out: output{written: make(chan struct{})}}
	p.cmd.Env = append([]string{"GORACE=atexit_sleep_ms=0"}, environ...) // the race detector would sleep for a second at exit
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	s.trackProcess(p)
	var err error
	p.ended, err = child.Start(p.cmd)
	require.NoError(t, err)
	t.Cleanup(func() { p.kill(t) })
	return p
}

// address waits until the process logs where it listens, and returns that host:port. It ignores the
// metrics listener.
func (p *process) address(t *testing.T) string {
	t.Helper()
	return p.listenAddress(t, func(line string) bool { return !strings.Contains(line, "listener=metrics") })
}

// listenAddress returns the host:port of the first "listening" line that which accepts.
func (p *process) listenAddress(t *testing.T, which func(line string) bool) string {
	t.Helper()
	var address string
	p.waitFor(t, func(text string) bool {
		for line := range strings.Lines(text) {
			if !strings.HasSuffix(line, "\n") || !strings.Contains(line, "listening") || !which(line) {
				continue
			}
			_, address, _ = strings.Cut(line, "127.0.0.1:")
			address = "127.0.0.1:" + strings.TrimRight(address, "\"}\n")
			return true
		}
		return false
	})
	return address
}

// waitFor waits until wanted accepts all output so far.
func (p *process) waitFor(t *testing.T, wanted func(text string) bool) {
	t.Helper()
	deadline := time.After(timeout)
	for {
		text, written := p.out.read()
		if wanted(text) {
			return
		}
		select {
		case <-written:
		case <-p.ended:
			text, _ := p.out.read()
			require.True(t, wanted(text), "it exited with the output:\n%s", text)
			return
		case <-deadline:
			require.Fail(t, "timed out", "the output is:\n%s", text)
		}
	}
}

// waitForOutput waits until the output contains text.
func (p *process) waitForOutput(t *testing.T, text string) {
	t.Helper()
	p.waitFor(t, func(all string) bool { return strings.Contains(all, text) })
}

// waitForExit waits until the process exits by itself, and returns its exit status and output.
func (p *process) waitForExit(t *testing.T) (int, string) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(timeout):
		require.Fail(t, "still running")
	}
	text, _ := p.out.read()
	return p.cmd.ProcessState.ExitCode(), text
}

// stop sends SIGTERM and requires exit status 0, which a data race also changes. It returns the output.
func (p *process) stop(t *testing.T) string {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	status, text := p.waitForExit(t)
	require.Zero(t, status, text)
	return text
}

// kill sends SIGKILL if the process still runs, and waits for its end.
func (p *process) kill(t *testing.T) {
	select {
	case <-p.ended:
	default:
		_ = p.cmd.Process.Kill() // fails only if it has ended meanwhile
		<-p.ended
	}
}

// output collects what a process writes.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // closed and replaced at each write
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.written)
	o.written = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) read() (text string, written <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.written
}
