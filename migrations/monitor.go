package migrations

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// An OlderError says that a database's schema is older than this build, and what to do. Its text has
// no address and no secret.
type OlderError struct{ text string }

func (e *OlderError) Error() string { return e.text }

// A Monitor compares a database's schema with this build whenever it is asked. It remembers the last
// result and logs changes. Its methods may be called concurrently.
type Monitor struct {
	db  *pgxpool.Pool
	log *slog.Logger

	mu   sync.Mutex
	last State
}

// NewMonitor returns a monitor of the database of a pool.
func NewMonitor(db *pgxpool.Pool, log *slog.Logger) *Monitor { return &Monitor{db: db, log: log} }

// Check returns a description of the database and its schema. It returns an error if the database
// does not answer, and an [*OlderError] if its schema is older than this build.
func (m *Monitor) Check(ctx context.Context) (string, error) {
	conn, err := m.db.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	now, err := Compare(ctx, conn.Conn())
	if err != nil {
		return "", err
	}
	m.logChange(ctx, now)
	if now.Standing == Older {
		return "", &OlderError{"The database is not what this version expects. " + now.Text}
	}
	version, _, _ := strings.Cut(conn.Conn().PgConn().ParameterStatus("server_version"), " ")
	if now.Standing != Same {
		return "PostgreSQL " + version + ". " + now.Text, nil
	}
	return "PostgreSQL " + version + ", schema up to date.", nil
}

func (m *Monitor) logChange(ctx context.Context, now State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.last
	m.last = now
	switch {
	case now == before:
	case now.Standing == Older:
		m.log.ErrorContext(ctx, "the schema is older than this version", "schema", now.Text)
	case now.Standing == Altered:
		m.log.ErrorContext(ctx, "tables of the schema were altered", "schema", now.Text)
	case now.Standing == Same:
		m.log.InfoContext(ctx, "the schema is that of this version now")
	default:
		m.log.WarnContext(ctx, "the schema is not that of this version", "schema", now.Text)
	}
}

// Warning returns what is wrong with a schema that is usable nevertheless, or "".
func (m *Monitor) Warning() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.last.Standing {
	case Newer, Different, Altered:
		return m.last.Text
	}
	return ""
}
