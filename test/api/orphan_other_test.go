//go:build !linux

package api

import "syscall"

func orphanless() *syscall.SysProcAttr { return nil }
