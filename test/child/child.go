// Package child starts programs that do not outlive the test process.
package child

import (
	"os/exec"
	"runtime"
)

// Start starts a program. ended is closed when it has ended and its output is complete; cmd.ProcessState then
// says how. On Linux the kernel kills the program if the test process ends first.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	killWithParent(cmd)
	done, started := make(chan struct{}), make(chan error)
	go func() { // ends with the program
		runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(done)
		}
	}()
	return done, <-started
}
