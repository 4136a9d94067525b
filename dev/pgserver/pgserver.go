// Package pgserver runs a private PostgreSQL server for development and tests. It finds the
// programs, creates the cluster in a folder, starts it on a loopback port, and ensures that the
// server does not outlive its parent.
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

	"svc/filelock"
)

// User is the superuser in the URLs of a private cluster.
const User = "svc"

// Config configures a private cluster.
type Config struct {
	// Dir is the folder of the cluster, created if necessary. It contains the data, the log, the
	// password and the address of the last start.
	Dir string
	// Durable enables fsync, synchronous_commit and full_page_writes. Disable it only in tests: a crash
	// of the machine then loses data.
	Durable bool
	// Addr is an optional "127.0.0.1:port". If it is empty, Start uses the port of the last start if it is
	// still free, otherwise any free port.
	Addr string
	// Log receives messages, such as how PostgreSQL was found. Nil discards them.
	Log *slog.Logger
}

// Server is a running private cluster. Stop must be called even if the server ended by itself, to
// release the folder's lock.
type Server struct {
	config   Config
	programs programs
	password string
	addr     string
	lock     *filelock.Lock
	process  *process
	ending   sync.Mutex
}

// Start creates the cluster if necessary, starts it, and returns when it accepts connections. ctx
// limits only the start. Errors contain the folder; they report a folder locked by another process
// (with its pid), a port in use, missing programs (with every way tried), or a server that ended
// early (with the end of its log).
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
	if err := s.startLocked(ctx); err != nil {
		return nil, errors.Join(err, held.Unlock())
	}
	return s, nil
}

// startLocked starts the server in the locked folder.
func (s *Server) startLocked(ctx context.Context) error {
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

// URL returns the postgres:// URL of a database of the cluster, as its superuser. It contains the
// password and must not be logged.
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

// Dir returns the absolute path of the cluster's folder. Another Start on it opens the same data.
func (s *Server) Dir() string { return s.config.Dir }

// Programs describes which PostgreSQL runs and how it was found.
func (s *Server) Programs() string { return s.programs.String() }

// Done returns a channel that is closed when the server process has ended for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.process.done }

// port returns the port of the server's address.
func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.addr) // addr is always host:port
	return port
}
