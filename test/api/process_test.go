package api

import (
	"bytes"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limit is how long anything that is waited for may take, on a machine that has
// much else to do.
const limit = 2 * time.Minute

// A process is a running program.
type process struct {
	cmd   *exec.Cmd
	out   output
	ended chan struct{} // closed when it has ended and all its output is here
}

// start runs a program of the site until t ends, with environ and no other
// environment.
func (s *site) start(t *testing.T, program string, environ []string, args ...string) *process {
	t.Helper()
	return s.launch(t, exec.Command(s.program(program), args...), environ)
}

func (s *site) launch(t *testing.T, cmd *exec.Cmd, environ []string) *process {
	t.Helper()
	p := &process{cmd: cmd, out: output{news: make(chan struct{})}, ended: make(chan struct{})}
	p.cmd.Env = append([]string{"GORACE=atexit_sleep_ms=0"}, environ...) // it sleeps for a second otherwise
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = orphanless()
	s.watch(p)

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
	t.Cleanup(func() { p.kill(t) })
	return p
}

// address waits until a service says where it listens.
func (p *process) address(t *testing.T) string {
	t.Helper()
	return p.listens(t, func(line string) bool { return !strings.Contains(line, "listener=metrics") })
}

func (p *process) listens(t *testing.T, which func(line string) bool) string {
	t.Helper()
	var address string
	p.until(t, func(text string) bool {
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

// until waits until the process has said what is wanted.
func (p *process) until(t *testing.T, wanted func(text string) bool) {
	t.Helper()
	late := time.After(limit)
	for {
		text, news := p.out.read()
		if wanted(text) {
			return
		}
		select {
		case <-news:
		case <-p.ended:
			text, _ := p.out.read()
			require.True(t, wanted(text), "it ended and said:\n%s", text)
			return
		case <-late:
			require.Fail(t, "not said in time", "it said:\n%s", text)
		}
	}
}

// says waits until the process has said text.
func (p *process) says(t *testing.T, text string) {
	t.Helper()
	p.until(t, func(all string) bool { return strings.Contains(all, text) })
}

// wait waits until the process ends by itself, and returns its exit status and
// what it said.
func (p *process) wait(t *testing.T) (int, string) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		require.Fail(t, "still running")
	}
	text, _ := p.out.read()
	return p.cmd.ProcessState.ExitCode(), text
}

// stop asks the process to end, as an operator does. It must do so at once,
// with status 0: the race detector makes it another.
func (p *process) stop(t *testing.T) string {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	status, text := p.wait(t)
	require.Zero(t, status, text)
	return text
}

// kill ends what has not ended.
func (p *process) kill(t *testing.T) {
	select {
	case <-p.ended:
	default:
		_ = p.cmd.Process.Kill() // it may end meanwhile
		<-p.ended
	}
}

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

func (o *output) read() (text string, news <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.news
}
