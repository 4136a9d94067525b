package pgserver

import (
	"bytes"
	"os/exec"
	"runtime"
)

// process is a child process that a goroutine starts and waits for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // result of Wait; valid after done
}

// spawn starts a command from a goroutine that keeps its thread for the life of the child, because
// the kernel sends the parent-death signal when the forking thread ends.
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

// output runs a command and returns all its output.
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

// tail returns the end of a text, enough to see why a program failed.
func tail(text []byte) string {
	const most = 4 << 10
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(bytes.TrimSpace(text))
}
