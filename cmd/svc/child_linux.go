package main

import "syscall"

// group asks for a process group, and for an end with the parent: kill -9 of
// svc leaves no process behind.
func group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
