package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	startTimeout = 2 * time.Minute // recovery after a crash takes time
	pollInterval = 5 * time.Millisecond
)

func (s *Server) logFile() string { return filepath.Join(s.config.Dir, "postgres.log") }

// launch starts the server. If another program takes the chosen free port first, it tries other
// ports.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	avoid := ""
	for range 5 {
		if err := s.chooseAddr(avoid); err != nil {
			return err
		}
		err := s.launchOnce(ctx)
		if err == nil {
			return os.WriteFile(s.addrFile(), []byte(s.addr+"\n"), 0o600)
		}
		log, _ := os.ReadFile(s.logFile()) // err is reported anyway
		if s.config.Addr != "" || !strings.Contains(string(log), "could not bind") {
			return fmt.Errorf("%w\n%s", err, tail(log))
		}
		avoid = s.addr
	}
	return errors.New("every free port was taken by another program before the server had it")
}

func (s *Server) launchOnce(ctx context.Context) error {
	log, err := s.openLog()
	if err != nil {
		return err
	}
	defer log.Close() // the server inherits a copy
	args := []string{"-D", s.data()}
	for _, setting := range s.settings() {
		args = append(args, "-c", setting)
	}
	// Not the context of the start, because the server outlives it.
	cmd := s.programs.command(context.WithoutCancel(ctx), "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.process, err = spawn(cmd); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return errors.Join(err, s.kill())
	}
	return nil
}

// openLog starts a new log file and keeps the previous one.
func (s *Server) openLog() (*os.File, error) {
	err := os.Rename(s.logFile(), s.logFile()+".old")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(s.logFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// ready waits until the server reports itself ready in its pid file, and then connects once, which
// also tests the password.
func (s *Server) ready(ctx context.Context) error {
	for !s.saysReady() {
		select {
		case <-s.process.done:
			return fmt.Errorf("the server ended early: %w", s.process.err)
		case <-ctx.Done():
			return fmt.Errorf("the server did not become ready: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// saysReady reads the pid file, whose first line is the pid and whose eighth is the state. A file
// of an earlier server has another pid.
func (s *Server) saysReady() bool {
	lines := pidFile(s.data())
	return len(lines) >= 8 && lines[0] == strconv.Itoa(s.process.cmd.Process.Pid) && lines[7] == "ready"
}

// pidFile returns the lines of the cluster's postmaster.pid, none if it does not exist.
func pidFile(data string) []string {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}
