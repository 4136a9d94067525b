package rest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands/bearer"
	"svc/events"
	"svc/projections"
	"svc/sessions"
	"svc/test/callers"
	"svc/test/pgtest"
	"svc/test/world"
)

// queries records the statements of a pool.
type queries struct {
	mu   sync.Mutex
	list []string
}

func (a *queries) record(sql string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, sql)
}

// reset returns the recorded statements and clears them.
func (a *queries) reset() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.list
	a.list = nil
	return list
}

func (a *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	a.record(d.SQL)
	return ctx
}

func (a *queries) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	a.record(d.SQL)
}

func (*queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*queries) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (*queries) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// A poll looks up the token and a position, and nothing else, until something changes.
func TestUnchangedDashboardNeedsOneLookup(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	seen := &queries{}
	config.ConnConfig.Tracer = seen
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(db.Close)

	workspace, token := events.NewID(epoch), bearer.NewServiceToken()
	for sql, args := range map[string][]any{
		`insert into workspaces values ($1, 'Acme', 'acme', now())`:                                      {workspace},
		`insert into service_tokens values ($2, $1, $1, 'reader', '{api.read}', 'tail', 'current')`:      {workspace, token.Fingerprint()},
		`insert into checkpoints (workspace_id, view, seq) values ($1, 'runs', 7), ($1, 'decisions', 7)`: {workspace},
		`insert into logs (workspace_id, head, last_at) values ($1, 7, now())`:                           {workspace},
	} {
		_, err := db.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	log := slog.New(slog.DiscardHandler)
	s := New(Config{
		Lists: Lists{Dashboard: projections.Dashboard{DB: db}}, Primary: Primary{ServiceAccounts: projections.ServiceAccounts{DB: db}},
		LastSeen: sessions.NewLastSeen(db, log), Load: func() float64 { return 0 }, Log: log,
		Now:    func() time.Time { return epoch }, // a request that takes long looks up the token again
		Origin: "http://localhost:4000",
	})
	api := s.Handler()
	ask := func(etag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/dashboard", nil)
		r.Header.Set("Authorization", "Bearer "+token.Reveal())
		r.Header.Set("If-None-Match", etag)
		seen.reset()
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w
	}

	first := ask("")
	require.Equal(t, http.StatusOK, first.Code, first.Body)
	whole := seen.reset()
	require.Greater(t, len(whole), 2, whole)

	unchanged := ask(first.Header().Get("ETag"))
	require.Equal(t, http.StatusNotModified, unchanged.Code)
	cheap := seen.reset()
	require.Len(t, cheap, 2)
	require.Contains(t, cheap[0], "from service_tokens")
	require.Contains(t, cheap[1], "from checkpoints")

	tag := first.Header().Get("ETag")
	for _, sql := range []string{ // the farm's rows change with the log, the others with their views
		`update logs set head = 8 where workspace_id = $1`, `update checkpoints set seq = 8 where workspace_id = $1 and view = 'runs'`,
		`update logs set last_at = last_at - interval '1 ms' where workspace_id = $1`, // a backup was restored, and as many events came
	} {
		_, err = db.Exec(t.Context(), sql, workspace)
		require.NoError(t, err)
		changed := ask(tag)
		require.Equal(t, http.StatusOK, changed.Code, sql)
		tag = changed.Header().Get("ETag")
	}
	for _, set := range []func(){func() { s.BuildFarm.On = true }, func() { s.BuildFarm.PublicURL = "https://farm.example" }} { // restarted
		set()
		changed := ask(tag)
		require.Equal(t, http.StatusOK, changed.Code)
		tag = changed.Header().Get("ETag")
	}
}

// The tag of a dashboard is of the server that it was read from, if others behind the same address are ahead.
// With a tag of theirs, polls would be answered 304 until something else happens.
func TestDashboardTagIsOfServerThatAnswered(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	workspace := world.FillLog(t, world.Connect(t, url), 7)
	var lags atomic.Bool // what the pool reads from then on
	db := world.Connect(t, url, func(c *pgxpool.Config) {
		c.MaxConns, c.PrepareConn = 1, func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			sql := `drop table if exists pg_temp.logs`
			if lags.Load() {
				sql = `create temporary table if not exists logs as select workspace_id, head - 1 as head, last_at from public.logs`
			}
			_, err := conn.Exec(ctx, sql)
			return true, err
		}
	})
	s := New(Config{
		Lists: Lists{Dashboard: projections.Dashboard{DB: db}}, Load: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { // between looking up the position and reading the rest
			lags.Store(!lags.Load())
			return epoch
		},
	})
	ask := func(tag string) *dashboardAnswer {
		a, err := s.getDashboard(callers.As(t, callers.Owner(workspace)), &dashboardQuery{IfNoneMatch: tag})
		require.NoError(t, err)
		return a
	}
	first := ask("")
	require.Equal(t, http.StatusOK, first.Status)
	lags.Store(false)
	second := ask(first.ETag)
	require.Equal(t, http.StatusOK, second.Status, "now of a server that is ahead")
}

func TestDashboardSentence(t *testing.T) {
	for _, c := range []struct {
		active, waiting int
		want            string
	}{
		{0, 0, "No run is active."}, {1, 0, "1 run is active."}, {1, 1, "1 run is active. 1 waits for a person."},
		{12, 3, "12 runs are active. 3 wait for a person."},
	} {
		require.Equal(t, c.want, dashboardSentence(c.active, c.waiting))
	}
}

func TestPollAfter(t *testing.T) {
	for load, want := range map[float64]int{0: 15, 0.7: 15, 0.8: 30, 1: 60} {
		s := New(Config{Load: func() float64 { return load }})
		require.Equal(t, want, s.pollAfter(), load)
	}
}
