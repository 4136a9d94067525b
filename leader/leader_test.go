package leader_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/leader"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A process takes part in elections until it is stopped.
type process struct {
	*leader.Elections
	stop func()
	log  *logBuffer
}

// A logBuffer collects what a process logs.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *logBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *logBuffer) errors() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), "level=ERROR")
}

func start(t *testing.T, db *pgxpool.Pool, names ...string) *process {
	t.Helper()
	p := &process{log: &logBuffer{}}
	p.Elections = leader.New(db, slog.New(slog.NewTextHandler(p.log, nil)), names...)
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { p.Run(ctx) })
	p.stop = sync.OnceFunc(func() { stop(); done.Wait() })
	t.Cleanup(p.stop)
	return p
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, time.Millisecond)
}

func TestOneProcessLeads(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	first := start(t, db, "a", "b")
	eventually(t, func() bool { return first.Leads("a") && first.Leads("b") })
	second := start(t, db, "a", "b", "c")
	eventually(t, func() bool { return second.Leads("c") })
	require.False(t, second.Leads("a"))
	require.False(t, first.Leads("c"), "it never asked")
	first.stop()
	require.False(t, first.Leads("a"))
	eventually(t, func() bool { return second.Leads("a") && second.Leads("b") })

	second.stop()
	var left int
	require.NoError(t, db.QueryRow(t.Context(), `select count(*) from leases`).Scan(&left))
	require.Zero(t, left, "no lease has to run out")
	require.Zero(t, first.log.errors()+second.log.errors())
}

// A process that cannot do the work of a lease leaves it to another, and takes it again when it can.
func TestLeaseIsLeftToThoseWhoCanWork(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var able atomic.Bool
	able.Store(true)
	first := leader.New(db, slog.New(slog.DiscardHandler), "a", "b")
	first.OnlyIf(able.Load, "a")
	var done sync.WaitGroup
	done.Go(func() { first.Run(t.Context()) })
	t.Cleanup(done.Wait)
	eventually(t, func() bool { return first.Leads("a") && first.Leads("b") })
	able.Store(false)
	second := start(t, db, "a", "b")
	eventually(t, func() bool { return second.Leads("a") })
	require.False(t, first.Leads("a"))
	require.True(t, first.Leads("b"), "only the other lease has a condition")
	able.Store(true)
	second.stop()
	eventually(t, func() bool { return first.Leads("a") })
}

// A lease from before the database's clock was set back is no lease.
func TestLeaseThatExpiresTooLateIsTakenOver(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `insert into leases values ('a', gen_random_uuid(), now() + interval '1 minute')`)
	p := start(t, db, "a")
	eventually(t, func() bool { return p.Leads("a") })
}

func exec(t *testing.T, db *pgxpool.Pool, sql string) {
	_, err := db.Exec(context.Background(), sql)
	require.NoError(t, err)
}

// A process that loses its database stops relying on its lease before another one can take
// over.
func TestHolderWithoutDatabaseGivesUpFirst(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	own, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	first := start(t, own, "a")
	eventually(t, func() bool { return first.Leads("a") })
	second := start(t, db, "a")
	own.Close() // now the first cannot renew
	eventually(t, func() bool {
		taken := second.Leads("a") // checked first, because first's lease may expire between the two checks
		require.False(t, taken && first.Leads("a"))
		return taken
	})
}
