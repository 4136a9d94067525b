//go:build !linux

package executor

import "time"

// started is when this process began.
var started = time.Now()

// BootTime returns the time since this process began.
func BootTime() time.Duration { return time.Since(started) }

func preferForOOM() {}
