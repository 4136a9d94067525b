package migrations_test

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/migrations"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// limit bounds a test's use of the database.
const limit = time.Minute

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func connect(t *testing.T, url string) *pgx.Conn {
	conn, err := pgx.Connect(testContext(t), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// files returns a set of migrations by name and text.
func files(nameAndText ...string) migrations.Set {
	fsys := fstest.MapFS{}
	for i := 0; i < len(nameAndText); i += 2 {
		fsys[nameAndText[i]] = &fstest.MapFile{Data: []byte(nameAndText[i+1])}
	}
	return migrations.Set{Files: fsys}
}

// migrate returns the report, with the parts that differ between runs normalized.
func migrate(t *testing.T, conn *pgx.Conn, s migrations.Set) (string, error) {
	var out bytes.Buffer
	err := s.Migrate(testContext(t), conn, &out)
	return normal(conn, out.String()), err
}

func mustMigrate(t *testing.T, conn *pgx.Conn, s migrations.Set) string {
	report, err := migrate(t, conn, s)
	require.NoError(t, err)
	return report
}

var (
	timeTaken = regexp.MustCompile(`\d\d:\d\d\.\d{3}s`)
	timeStamp = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
	firstLine = regexp.MustCompile(`Database: postgresql://\S+ \(PostgreSQL [0-9.]+\)`)
)

func normal(conn *pgx.Conn, report string) string {
	report = timeTaken.ReplaceAllString(report, "00:00.000s")
	report = timeStamp.ReplaceAllString(report, "2006-01-02 15:04:05")
	return firstLine.ReplaceAllString(report, "Database: postgresql://host:port/name (PostgreSQL version)")
}

// history returns all rows of the table: version, description, success.
func history(t *testing.T, conn *pgx.Conn) []string {
	rows, err := conn.Query(testContext(t),
		`select version || ' ' || description || ' ' || success from public.schema_history order by version`)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	_, err := conn.Exec(testContext(t), sql)
	require.NoError(t, err)
}

// A watched buffer signals when a text has been written to it.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	want string
	seen chan struct{}
	once sync.Once
}

func watch(want string) *watched { return &watched{want: want, seen: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if strings.Contains(w.text.String(), w.want) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(p), nil
}

func (w *watched) wait(t *testing.T) {
	select {
	case <-w.seen:
	case <-time.After(limit):
		require.FailNow(t, "never written: "+w.want)
	}
}
