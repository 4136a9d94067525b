//go:build !linux

package api

import "syscall"

// killWithParent has no effect outside Linux.
func killWithParent() *syscall.SysProcAttr { return nil }
