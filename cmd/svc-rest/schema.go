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

// A schema knows what the database's is to this build, as of the last check. What
// has changed since the one before it says in the log.
type schema struct {
	db  *pgxpool.Pool
	log *slog.Logger

	mu   sync.Mutex
	last migrations.State
}

// check reports whether the database answers and has what this build asks of it, and
// what it is.
func (s *schema) check(ctx context.Context) (string, error) {
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	now, err := migrations.Compare(ctx, conn.Conn())
	if err != nil {
		return "", err
	}
	s.note(ctx, now)
	if now.Standing == migrations.Older {
		return "", rest.Down("The database is not what this version expects. " + now.Text)
	}
	version, _, _ := strings.Cut(conn.Conn().PgConn().ParameterStatus("server_version"), " ")
	if now.Standing != migrations.Same {
		return "PostgreSQL " + version + ". " + now.Text, nil
	}
	return "PostgreSQL " + version + ", the schema is that of this version.", nil
}

func (s *schema) note(ctx context.Context, now migrations.State) {
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

// warning is what is wrong with a schema that can be worked with, "" if nothing.
func (s *schema) warning() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Standing == migrations.Newer || s.last.Standing == migrations.Different {
		return s.last.Text
	}
	return ""
}
