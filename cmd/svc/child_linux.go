package main

import "syscall"

// childAttributes requests a process group and a death signal, so that kill -9 of svc leaves no process
// behind.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
