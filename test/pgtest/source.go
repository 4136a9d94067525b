package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync"

	"github.com/jackc/pgx/v5"

	"svc/dev/pgserver"
	"svc/migrations"
)

// A source creates databases on one server. It uses one connection for all administrative statements.
type source struct {
	server *pgserver.Server // nil with TEST_DATABASE_URL
	folder string           // of server
	base   url.URL          // of the server; url replaces the database

	mu      sync.Mutex
	admin   *pgx.Conn
	run     int64 // the number of this run, part of the names of its databases
	count   int
	idle    []string // released clones
	shape   string   // of an unaltered clone
	hasRows bool     // the migrations insert rows, so no clone is used twice
}

// open starts a private cluster, or connects to the server of TEST_DATABASE_URL, and creates the
// template.
func open(ctx context.Context) (*source, error) {
	s := &source{}
	address := os.Getenv("TEST_DATABASE_URL")
	if address == "" {
		if err := s.startServer(ctx); err != nil {
			return nil, fmt.Errorf("pgtest: %w", err)
		}
		address = s.server.URL("postgres")
	}
	if err := s.connect(ctx, address); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %w", err), s.close(ctx))
	}
	return s, nil
}

func (s *source) startServer(ctx context.Context) error {
	folder, err := newFolder()
	if err != nil {
		return err
	}
	s.folder = folder
	s.server, err = pgserver.Start(ctx, pgserver.Config{Dir: folder, Log: logger()})
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	return nil
}

func (s *source) connect(ctx context.Context, address string) error {
	base, err := url.Parse(address)
	if err != nil {
		return errors.New("TEST_DATABASE_URL is not an address such as postgres://user@host:port/database")
	}
	s.base = *base
	if s.admin, err = pgx.Connect(ctx, address); err != nil {
		return err
	}
	if err := s.startRun(ctx); err != nil {
		return err
	}
	return s.makeTemplate(ctx)
}

// makeTemplate creates and migrates a database, and then forbids connections to it, because PostgreSQL
// does not copy a database that has any.
func (s *source) makeTemplate(ctx context.Context) error {
	if err := s.create(ctx, s.template(), "template0"); err != nil {
		return err
	}
	err := s.withConn(ctx, s.template(), func(conn *pgx.Conn) error {
		if err := migrations.Migrate(ctx, conn, io.Discard); err != nil {
			return err
		}
		var err error
		if s.hasRows, err = hasRows(ctx, conn); err != nil {
			return err
		}
		s.shape, err = shape(ctx, conn)
		return err
	})
	if err != nil {
		return fmt.Errorf("make the template: %w", err)
	}
	_, err = s.admin.Exec(ctx, "alter database "+quote(s.template())+" with allow_connections false")
	return err
}

// acquire returns the name of a clone of the template: a released one or a new one.
func (s *source) acquire(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.idle) - 1; last >= 0 {
		name := s.idle[last]
		s.idle = s.idle[:last]
		return name, nil
	}
	name := s.next()
	return name, s.create(ctx, name, s.template())
}

func (s *source) empty(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.next()
	return name, s.create(ctx, name, "template0")
}

func (s *source) encoded(ctx context.Context, encoding string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.next()
	_, err := s.admin.Exec(ctx, "create database "+quote(name)+" template template0 locale 'C' encoding "+quote(encoding))
	return name, err
}

func (s *source) clone(ctx context.Context, of string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.next()
	return name, s.create(ctx, name, of)
}

func (s *source) remove(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.admin.Exec(ctx, "drop database "+quote(name)+" with (force)")
	return err
}

// release empties a clone for the next test. If a test has altered its schema, or the migrations insert
// rows, it is not used again.
func (s *source) release(ctx context.Context, name string) error {
	reusable := !s.hasRows
	err := s.withConn(ctx, name, func(conn *pgx.Conn) error {
		if err := disconnectOthers(ctx, conn); err != nil {
			return err
		}
		now, err := shape(ctx, conn)
		if err != nil || now != s.shape {
			reusable = false
			return err
		}
		return truncate(ctx, conn)
	})
	if err != nil {
		return fmt.Errorf("pgtest: empty %s: %w", name, err)
	}
	if reusable {
		s.mu.Lock()
		s.idle = append(s.idle, name)
		s.mu.Unlock()
	}
	return nil
}

// close stops and deletes the private cluster. With TEST_DATABASE_URL it drops this run's databases.
func (s *source) close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.server == nil && s.admin != nil {
		errs = append(errs, s.drop(ctx, s.run))
	}
	if s.admin != nil {
		errs = append(errs, s.admin.Close(ctx))
	}
	if s.server != nil {
		errs = append(errs, s.server.Stop(), os.RemoveAll(s.folder))
	}
	return errors.Join(errs...)
}

// url returns the address of a database of the server.
func (s *source) url(database string) string {
	u := s.base
	u.Path = "/" + database
	return u.String()
}

// withConn calls do with a new connection to a database.
func (s *source) withConn(ctx context.Context, database string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.url(database))
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(ctx))
}
