//go:build !linux

package runner

import (
	"syscall"
	"time"
)

func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// started is when this process began.
var started = time.Now()

func executable(program string) string { return program }

func bootTime() time.Duration { return time.Since(started) }

func bootID() string { return "" }

func diskFree(string) int64 { return -1 }

func load() float64 { return 0 }

func memory() int64 { return 0 }

func preferForOOM() {}
