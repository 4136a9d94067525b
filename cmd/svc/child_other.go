//go:build !linux

package main

import "syscall"

// childAttributes requests a process group. Only Linux can tie a process to its parent.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
