package pgtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

const prefix = "svc_test_"

// startRun chooses the number of this run and holds an advisory lock on it until the connection ends.
// Then it drops the databases of runs that were killed.
func (s *source) startRun(ctx context.Context) error {
	s.run = rand.Int64N(1 << 40)
	if _, err := s.admin.Exec(ctx, "select pg_advisory_lock($1)", s.run); err != nil {
		return err
	}
	rows, err := s.admin.Query(ctx, "select datname from pg_database where starts_with(datname, $1)", prefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "_")
		if run, err := strconv.ParseInt(number, 10, 64); err == nil {
			if err := s.dropDead(ctx, run); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropDead drops the databases of a run whose lock nobody holds.
func (s *source) dropDead(ctx context.Context, run int64) error {
	var dead bool
	if err := s.admin.QueryRow(ctx, "select pg_try_advisory_lock($1)", run).Scan(&dead); err != nil || !dead {
		return err
	}
	if err := s.drop(ctx, run); err != nil {
		return err
	}
	_, err := s.admin.Exec(ctx, "select pg_advisory_unlock($1)", run)
	return err
}

// drop drops all databases of a run.
func (s *source) drop(ctx context.Context, run int64) error {
	rows, err := s.admin.Query(ctx, "select datname from pg_database where starts_with(datname, $1)", runPrefix(run))
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := s.admin.Exec(ctx, "drop database if exists "+quote(name)+" with (force)"); err != nil {
			return fmt.Errorf("drop %s: %w", name, err)
		}
	}
	return nil
}

func (s *source) create(ctx context.Context, name, template string) error {
	_, err := s.admin.Exec(ctx, "create database "+quote(name)+" template "+quote(template)+" strategy file_copy")
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

func runPrefix(run int64) string { return prefix + strconv.FormatInt(run, 10) + "_" }

func (s *source) template() string { return runPrefix(s.run) + "template" }

func (s *source) next() string {
	s.count++
	return runPrefix(s.run) + strconv.Itoa(s.count)
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
