package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The database is built under the first name and gets the second one when its
// demonstration data is complete: one that was cut off is never taken for one
// that is done.
const (
	seedingName = "svc_seeding"
	finalName   = "svc"
)

// database returns the URL of a database that is migrated and, if it is
// empty, filled with the demonstration data.
func (s *stack) database(ctx context.Context) (string, error) {
	if s.server == nil {
		given := s.DatabaseURL.Reveal()
		return given, s.prepareGiven(ctx, given)
	}
	return s.server.URL(finalName), s.preparePrivate(ctx)
}

// preparePrivate makes the database of the private PostgreSQL, or brings it
// up to date.
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
		return s.seed(ctx, s.server.URL(finalName)) // which makes new tokens
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

// prepareGiven fills the database of SVC_DATABASE_URL if it is empty, and
// leaves anybody else's data alone.
func (s *stack) prepareGiven(ctx context.Context, to string) error {
	var empty bool
	err := s.query(ctx, to, func(ctx context.Context, c *pgx.Conn) (err error) {
		empty, err = holdsNothing(ctx, c)
		return err
	})
	if err != nil {
		return err
	}
	if empty {
		return s.seed(ctx, to)
	}
	return s.migrate(ctx, to)
}

// holdsNothing reports whether there is no workspace, or no table of them yet.
func holdsNothing(ctx context.Context, c *pgx.Conn) (empty bool, err error) {
	err = c.QueryRow(ctx, `select to_regclass('logs') is null`).Scan(&empty)
	if err != nil || empty {
		return empty, err
	}
	err = c.QueryRow(ctx, `select not exists (select from logs)`).Scan(&empty)
	return empty, err
}

// demoOf returns the demonstration data's people and service accounts: none
// if the database is somebody else's, in which demo.json, being from another
// one, would lead nowhere.
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

// query connects for the time of one use, a minute at most.
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
