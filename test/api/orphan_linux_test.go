package api

import "syscall"

// orphanless ends a process with this one, also when this one is killed.
func orphanless() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
