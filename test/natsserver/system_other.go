//go:build !linux

package natsserver

import "syscall"

// killWithParent has no effect outside Linux.
func killWithParent() *syscall.SysProcAttr { return nil }
