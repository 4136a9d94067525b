package natsserver

import "syscall"

// killWithParent has the kernel kill the server when the test process ends, even by SIGKILL.
func killWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
