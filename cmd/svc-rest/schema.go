package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/http/rest"
	"svc/migrations"
)

// A schemaCheck compares the database's schema with this build. It remembers the last result and logs
// changes.
type schemaCheck struct {
	db  *pgxpool.Pool
	log *slog.Logger

	mu   sync.Mutex
	last migrations.State
}

// check returns a description of the database and its schema. It returns an error if the database
// does not answer or its schema is older than this build.
func (s *schemaCheck) check(ctx context.Context) (string, error) {
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	now, err := migrations.Compare(ctx, conn.Conn())
	if err != nil {
		return "", err
	}
	s.logChange(ctx, now)
	if now.Standing == migrations.Older {
		return "", rest.Down("The database is not what this version expects. " + now.Text)
	}
	version, _, _ := strings.Cut(conn.Conn().PgConn().ParameterStatus("server_version"), " ")
	if now.Standing != migrations.Same {
		return "PostgreSQL " + version + ". " + now.Text, nil
	}
	return "PostgreSQL " + version + ", schema up to date.", nil
}

func (s *schemaCheck) logChange(ctx context.Context, now migrations.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last
	s.last = now
	switch {
	case now == before:
	case now.Standing == migrations.Older:
		s.log.ErrorContext(ctx, "the schema is older than this version", "schema", now.Text)
	case now.Standing == migrations.Same:
		s.log.InfoContext(ctx, "the schema is that of this version now")
	default:
		s.log.WarnContext(ctx, "the schema is not that of this version", "schema", now.Text)
	}
}

// warning returns what is wrong with a schema that is usable nevertheless, or "".
func (s *schemaCheck) warning() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Standing == migrations.Newer || s.last.Standing == migrations.Different {
		return s.last.Text
	}
	return ""
}
