package runner

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/identity"
	"svc/farm/wire"
)

// A lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	got bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got.String()
}

// A running is a supervisor that runs in the test's process.
type running struct {
	t      *testing.T
	s      *Supervisor
	stop   chan os.Signal
	cancel context.CancelFunc
	done   chan error
	log    *lines
}

func start(t *testing.T, folder identity.Folder, change ...func(*Config)) *running {
	r := &running{t: t, stop: make(chan os.Signal, 2), done: make(chan error, 1), log: &lines{}}
	cfg := Config{Folder: folder, Program: "/proc/self/exe", Stop: r.stop, GitProtocols: "file", MinDiskFree: 1,
		Log: slog.New(slog.NewTextHandler(r.log, nil))}
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	var err error
	r.s, err = NewSupervisor(ctx, cfg)
	require.NoError(t, err)
	go func() { r.done <- r.s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		_ = r.wait()
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

func reconnectAtOnce(c *Config) { c.Backoff = func(int) time.Duration { return time.Millisecond } }

// wait returns the result of Run.
func (r *running) wait() error {
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(waitLimit):
		r.t.Error("the supervisor does not end")
		return nil
	}
}

func (r *running) requireNoJobs() {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return len(r.s.heldJobs()) == 0 }, waitLimit, 5*time.Millisecond)
	for _, name := range []string{identity.SpoolFolder, identity.WorkFolder} {
		left, err := os.ReadDir(r.s.cfg.Folder.Path(name))
		require.NoError(r.t, err)
		require.Empty(r.t, left, name)
	}
}

func steps(scripts ...string) (list []wire.Step) {
	for i, s := range scripts {
		list = append(list, wire.Step{Name: fmt.Sprintf("step %d", i), Run: s})
	}
	return list
}
