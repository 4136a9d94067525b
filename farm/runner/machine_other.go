//go:build !linux

package runner

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func executable(program string) string { return program }

func bootID() string { return "" }

func diskFree(string) int64 { return -1 }

func load() float64 { return 0 }

func memory() int64 { return 0 }
