// Package pgserver runs a private PostgreSQL server for development and for
// tests: it finds the programs, makes the cluster in a folder, starts it on a
// loopback port, and sees to it that the server never outlives its parent.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// User is the superuser that every URL of a private cluster names.
const User = "svc"

// Config says where and how a private cluster runs.
type Config struct {
	// Dir is the folder of the cluster, made when absent. It holds the data,
	// the log, the password and the address of the last start.
	Dir string
	// Durable false turns fsync, synchronous_commit and full_page_writes off:
	// for tests only, because a crash of the machine then loses data.
	Durable bool
	// Addr is an optional "127.0.0.1:port". Empty takes the port of the last
	// start where that is still free, else any free one.
	Addr string
	// Log is told which way of finding PostgreSQL was used. Nil is silence.
	Log *slog.Logger
}

// Server is one running private cluster. Stop must be called also when the
// server ended by itself, because the folder stays locked until then.
type Server struct {
	config   Config
	programs programs
	password string
	addr     string
	lock     *lock
	process  *process
	ending   sync.Mutex
}

// Start makes the cluster when it is absent, starts it and returns when it
// takes connections. ctx limits the start only, not the life of the server.
// Errors name the folder: a folder that another process holds (with its pid),
// a port in use, no programs (with every way that was tried), or a server that
// ended early (with the end of its log).
func Start(ctx context.Context, c Config) (*Server, error) {
	s, err := start(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL in %s: %w", c.Dir, err)
	}
	return s, nil
}

func start(ctx context.Context, c Config) (*Server, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	c.Dir = dir
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	held, err := acquire(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, lock: held}
	if err := s.bring(ctx); err != nil {
		return nil, errors.Join(err, held.release())
	}
	return s, nil
}

// bring does what a start does once the folder is ours.
func (s *Server) bring(ctx context.Context) error {
	if err := endOrphan(ctx, s.data()); err != nil {
		return err
	}
	who, err := chooseAccount(s.config.Dir)
	if err != nil {
		return err
	}
	if s.programs, err = findPrograms(ctx, who, clusterMajor(s.data()), s.config.Log); err != nil {
		return err
	}
	s.config.Log.Info("found PostgreSQL", "way", s.Programs())
	if s.password, err = s.prepare(ctx); err != nil {
		return err
	}
	return s.launch(ctx)
}

func (s *Server) data() string { return filepath.Join(s.config.Dir, "data") }

// URL is the address of a database of the cluster, postgres://…, as its
// superuser. It holds the password: it is not for logs.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(User, s.password),
		Host:     s.addr,
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Dir is the absolute folder of the cluster; a Start on it brings the same
// data back.
func (s *Server) Dir() string { return s.config.Dir }

// Programs tells people which PostgreSQL runs and how it was found.
func (s *Server) Programs() string { return s.programs.String() }

// Done is closed when the server process has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.process.done }

// port is the port of the server's address.
func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.addr) // addr is always ours: host:port
	return port
}
