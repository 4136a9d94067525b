package runner

import (
	"context"
	"net"
	"os"
	"strconv"
	"time"
)

// notifyLimit is how long systemd may take to take a word, whose queue may be full.
const notifyLimit = time.Second

// notify tells systemd, where it started the runner and asks to be told.
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if path[0] == '@' { // a name without a file
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(notifyLimit))
	_, _ = conn.Write([]byte(state)) // systemd restarts a service of which it hears nothing
}

// notifyLoop says that the runner is ready, lives as long as its jobs can be looked at, and
// ends.
func (s *Supervisor) notifyLoop(ctx context.Context) {
	notify("READY=1")
	defer notify("STOPPING=1")
	period := time.Minute
	if n, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && n > 0 {
		period = time.Duration(n) * time.Microsecond / 2
	}
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			notify("WATCHDOG=1\nSTATUS=" + strconv.Itoa(s.busy()) + " jobs")
		}
	}
}
