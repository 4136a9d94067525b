package executor

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// started is when this process began.
var started = time.Now()

// BootTime returns the time since the machine booted, including sleep.
func BootTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return time.Since(started)
	}
	return time.Duration(t.Nano())
}

// preferForOOM makes the kernel kill this process and its children before the supervisor when
// memory runs out.
func preferForOOM() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0) }
