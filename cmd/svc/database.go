package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The database is created under the first name and renamed to the second when its demonstration
// data is complete, so an interrupted one is never used.
const (
	seedingName = "svc_seeding"
	finalName   = "svc"
)

// database returns the URL of a migrated database, which contains the demonstration data if it was
// empty.
func (s *stack) database(ctx context.Context) (string, error) {
	if s.server == nil {
		given := s.DatabaseURL.Reveal()
		return given, s.prepareGiven(ctx, given)
	}
	return s.server.URL(finalName), s.preparePrivate(ctx)
}

// preparePrivate creates or migrates the database of the private PostgreSQL.
func (s *stack) preparePrivate(ctx context.Context) error {
	var there bool
	err := s.query(ctx, s.server.URL("postgres"), func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `select exists (select from pg_database where datname = $1)`, finalName).Scan(&there)
	})
	if err != nil {
		return err
	}
	if !there {
		return s.makePrivate(ctx)
	}
	_, known, err := s.folder.demo()
	if err != nil {
		return err
	}
	if !known {
		return s.seed(ctx, s.server.URL(finalName)) // creates new tokens
	}
	return s.migrate(ctx, s.server.URL(finalName))
}

func (s *stack) makePrivate(ctx context.Context) error {
	err := s.execute(ctx,
		`drop database if exists `+seedingName+` with (force)`,
		`create database `+seedingName)
	if err != nil {
		return err
	}
	if err := s.seed(ctx, s.server.URL(seedingName)); err != nil {
		return err
	}
	return s.execute(ctx, `alter database `+seedingName+` rename to `+finalName)
}

// prepareGiven migrates the database of SVC_DATABASE_URL, and seeds it only if it is empty. If the
// seeding was interrupted, seeding again creates the missing demo.json, also in place of another
// database's, or says that only a part of the demonstration is there.
func (s *stack) prepareGiven(ctx context.Context, to string) error {
	var empty, begun bool
	err := s.query(ctx, to, func(ctx context.Context, c *pgx.Conn) (err error) {
		if empty, err = isEmpty(ctx, c); err == nil && !empty {
			begun, err = hasDemonstration(ctx, c)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case empty:
		return s.seed(ctx, to)
	case !begun:
		return s.migrate(ctx, to)
	}
	d, err := s.demoOf(ctx, to)
	switch {
	case err != nil:
		return err
	case len(d.People) == 0:
		return s.seed(ctx, to)
	}
	return s.migrate(ctx, to)
}

// firstPerson has the address of the demonstration's first person.
const firstPerson = "ada@acme.example"

// hasDemonstration reports whether the demonstration or its beginning is in a database.
func hasDemonstration(ctx context.Context, c *pgx.Conn) (found bool, err error) {
	err = c.QueryRow(ctx, `select to_regclass('users') is not null`).Scan(&found)
	if err != nil || !found {
		return false, err
	}
	err = c.QueryRow(ctx, `select exists (select from users where email = $1)`, firstPerson).Scan(&found)
	return found, err
}

// isEmpty reports whether there is no workspace, or no table of them.
func isEmpty(ctx context.Context, c *pgx.Conn) (empty bool, err error) {
	err = c.QueryRow(ctx, `select to_regclass('logs') is null`).Scan(&empty)
	if err != nil || empty {
		return empty, err
	}
	err = c.QueryRow(ctx, `select not exists (select from logs)`).Scan(&empty)
	return empty, err
}

// demoOf returns the people and service accounts of the demonstration. It returns none if demo.json
// belongs to another database than this one.
func (s *stack) demoOf(ctx context.Context, from string) (demo, error) {
	d, _, err := s.folder.demo()
	if err != nil || len(d.People) == 0 {
		return d, err
	}
	var known bool
	err = s.query(ctx, from, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `select exists (select from logs where workspace_id::text = $1)`, d.People[0].WorkspaceID).Scan(&known)
	})
	if err != nil || !known {
		return noDemo(), err
	}
	return d, nil
}

// execute runs statements one by one on the private PostgreSQL.
func (s *stack) execute(ctx context.Context, statements ...string) error {
	return s.query(ctx, s.server.URL("postgres"), func(ctx context.Context, c *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := c.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
}

// query connects to a database for one use of at most a minute.
func (s *stack) query(ctx context.Context, to string, use func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, to)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	return use(ctx, c)
}
