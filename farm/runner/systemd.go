package runner

import (
	"context"
	"net"
	"os"
	"strconv"
	"time"
)

// notifyTimeout limits a write to systemd's socket, whose queue may be full.
const notifyTimeout = time.Second

// notify sends a state to systemd, if systemd started the runner and set NOTIFY_SOCKET.
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if path[0] == '@' { // an abstract socket
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(notifyTimeout))
	_, _ = conn.Write([]byte(state)) // if this fails, the watchdog of systemd restarts the service
}

// notifyLoop tells systemd that the runner is ready, alive, and stopping. It sends no watchdog
// message while the list of jobs is locked.
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
			notify("WATCHDOG=1\nSTATUS=" + strconv.Itoa(s.runningJobs()) + " jobs")
		}
	}
}
