//go:build !linux

package main

import "syscall"

// group asks for a process group. Only Linux can tie a process to its parent.
func group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
