package child

import (
	"os/exec"
	"syscall"
)

// killWithParent has the kernel kill the program when the test process ends, even by SIGKILL.
func killWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
