package pgserver

import (
	"bytes"
	"os/exec"
	"runtime"
)

// process is a child that a goroutine of its own has started and waits for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; to be read after done
}

// spawn starts a command from a goroutine that keeps its thread for the life
// of the child: the kernel sends the parent-death signal when the thread that
// forked ends, not when the process does.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	return p, <-started
}

// output runs a command to its end and returns all that it printed.
func output(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := spawn(cmd)
	<-p.done
	if err == nil {
		err = p.err
	}
	return out.Bytes(), err
}

// tail is the end of a text: enough to see why a program gave up.
func tail(text []byte) string {
	const most = 4 << 10
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(bytes.TrimSpace(text))
}
