package lease_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/lease"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A process holds leases until it is stopped, which gives them back, or
// crashes, which does not.
type process struct {
	*lease.Leases
	stop func()
}

func start(t *testing.T, db *pgxpool.Pool, names ...string) *process {
	t.Helper()
	p := &process{Leases: lease.New(db, slog.New(slog.DiscardHandler), names...)}
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

func TestOneOfTwoHolds(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	first := start(t, db, "a", "b")
	eventually(t, func() bool { return first.Holds("a") && first.Holds("b") })
	second := start(t, db, "a", "b", "c")
	eventually(t, func() bool { return second.Holds("c") })
	require.False(t, second.Holds("a"))
	require.False(t, first.Holds("c"), "it never asked")
	first.stop()
	require.False(t, first.Holds("a"))
	eventually(t, func() bool { return second.Holds("a") && second.Holds("b") })

	second.stop()
	var left int
	require.NoError(t, db.QueryRow(t.Context(), `select count(*) from leases`).Scan(&left))
	require.Zero(t, left, "no lease has to run out")
}

// Whoever can no longer reach the database stops believing before another can
// take over.
func TestAHolderThatIsCutOffLetsGoFirst(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	own, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	first := start(t, own, "a")
	eventually(t, func() bool { return first.Holds("a") })
	second := start(t, db, "a")
	own.Close() // from here on the first can say nothing more
	eventually(t, func() bool {
		taken := second.Holds("a") // asked first: what is held now may be lost a moment later
		require.False(t, taken && first.Holds("a"))
		return taken
	})
}
