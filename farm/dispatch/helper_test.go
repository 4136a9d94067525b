package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/config"
	"svc/events"
	"svc/events/feed"
	"svc/events/store"
	"svc/farm/certificate"
	"svc/farm/dispatch"
	"svc/farm/ingest"
	"svc/farm/joblog"
	"svc/farm/secrets"
	"svc/projections"
	"svc/test/pgtest"
	"svc/test/world"
	"svc/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const waitLimit = time.Minute

// A clock is what replicas use as time: the real time, or that of the freeze, plus what the test adds.
type clock struct {
	mu     sync.Mutex
	frozen time.Time // zero: it runs
	ahead  time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen.IsZero() {
		return c.frozen.Add(c.ahead)
	}
	return time.Now().Add(c.ahead)
}

// freeze stops the clock, for tests of bounds that a slow machine would otherwise reach by itself.
func (c *clock) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = time.Now()
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// A site is a database and the replicas that share it.
type site struct {
	t     testing.TB
	url   string
	db    *pgxpool.Pool
	clock *clock
	ring  vault.Ring
	ws    events.ID
}

func newID() events.ID { return events.NewID(time.Now()) }

func newSite(t testing.TB) *site {
	t.Helper()
	url := pgtest.URL(t)
	ring, err := vault.NewRing([]config.Secret{"the-key-that-the-database-does-not-have"})
	require.NoError(t, err)
	s := &site{t: t, url: url, clock: &clock{}, ring: ring, ws: newID()}
	s.db = s.connect()
	return s
}

func (s *site) connect(change ...func(*pgxpool.Config)) *pgxpool.Pool {
	s.t.Helper()
	config, err := pgxpool.ParseConfig(s.url)
	require.NoError(s.t, err)
	config.MaxConns = 16
	for _, f := range change {
		f(config)
	}
	db, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(s.t, err)
	s.t.Cleanup(db.Close)
	return db
}

// A replica is the part of one service process that a test needs.
type replica struct {
	*commands.Handler
	*dispatch.Dispatcher
	logs   *joblog.Logs
	log    *store.Store
	server *httptest.Server
	stop   func() // shuts down as a process does
}

func never(string) bool { return false }

// replica starts a replica. It is never the leader: the test calls SweepOnce itself.
func (s *site) replica(change ...func(*dispatch.Config)) *replica {
	s.t.Helper()
	db, quiet := s.connect(), slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		quiet = slog.New(slog.NewTextHandler(testLog{s.t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	r := &replica{logs: joblog.New(db, quiet)}
	live := feed.New(db, quiet)
	hints := store.NewHints(db, db.Config().ConnConfig, quiet, func(workspace events.ID) { live.Moved(workspace, 0) })
	r.log = store.New(db, append(projections.Inline(), ingest.Leases{}), func(workspace events.ID, head int64) {
		live.Moved(workspace, head)
		hints.Moved(workspace, head)
	})
	r.log.Authenticate(s.ring)
	r.Handler = commands.New(r.log, s.clock.now)
	r.Views = world.Views(db, func() int64 { return s.clock.now().UnixMilli() })
	c := dispatch.Config{
		DB: db, Commands: r.Handler, Live: live, Logs: r.logs, Leads: never, Now: s.clock.now, Log: quiet, ArtifactMaxJobBytes: 1 << 20,
		Reveal: func(_ context.Context, _ events.ID, names []string) (map[string]string, error) {
			return nil, &secrets.MissingError{Name: names[0]}
		},
		CloneURL: func(_ context.Context, _, _ events.ID, repo string) (string, error) {
			return "https://code.example/" + repo + ".git", nil
		},
	}
	for _, f := range change {
		f(&c)
	}
	r.Dispatcher = dispatch.New(c)
	r.server = httptest.NewServer(http.HandlerFunc(r.connect))
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context){live.Run, hints.Run, r.logs.Run, r.Dispatcher.Run} {
		running.Go(func() { run(ctx) })
	}
	r.stop = sync.OnceFunc(func() {
		r.Dispatcher.Close()
		r.server.CloseClientConnections()
		r.server.Close()
		r.log.Close()
		end()
		running.Wait()
		db.Close()
	})
	s.t.Cleanup(r.stop)
	return r
}

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	fmt.Print(l.t.Name(), " ", string(b))
	return len(b), nil
}

var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

// connect accepts any runner; the path says which one it is.
func (r *replica) connect(w http.ResponseWriter, req *http.Request) {
	parts := strings.Split(req.URL.Path, "/")
	workspace, err := events.ParseID(parts[1])
	if err != nil {
		http.Error(w, "workspace", http.StatusBadRequest)
		return
	}
	id, err := events.ParseID(parts[2])
	if err != nil {
		http.Error(w, "runner", http.StatusBadRequest)
		return
	}
	release, err := r.Reserve(workspace)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	socket, err := upgrader.Upgrade(w, req, nil)
	if err != nil {
		release()
		return
	}
	r.Serve(socket, r.identity(workspace, id, parts[3]), release)
}

func (r *replica) identity(workspace, id events.ID, name string) dispatch.Runner {
	return dispatch.Runner{
		Workspace: workspace, ID: id, Name: name, NotAfter: r.Now().Add(certificate.Lifetime),
		Envelope: events.Envelope{Actor: events.Actor{Type: events.ByRunner, ID: id, Name: name}, Origin: events.FromFarm},
	}
}

func systemMeta(workspace events.ID) commands.Meta {
	return commands.Meta{Workspace: workspace, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"},
		Origin: events.FromSystem}}
}

// enrol adds a runner without a token.
func (s *site) enrol(r *replica, name string, capacity, jobs int, labels ...string) events.ID {
	s.t.Helper()
	return s.enrolAs(r, func(e *events.RunnerEnrolled) {
		e.Labels = append([]string{}, labels...)
		e.Name, e.Capacity, e.CapacityLimit, e.Jobs, e.MintedLabels = name, capacity, capacity, jobs, e.Labels
	})
}

// enrolAs adds a runner with one slot and what change sets.
func (s *site) enrolAs(r *replica, change func(*events.RunnerEnrolled)) events.ID {
	s.t.Helper()
	id := newID()
	e := events.RunnerEnrolled{
		Runner: id, Name: "builder", Enrollment: newID(), ExclusiveLabels: []string{}, Capacity: 1, CapacityLimit: 1,
		Agent:       events.Agent{Version: "1", OS: "linux", Arch: "amd64", Sandboxes: []string{"none"}},
		Certificate: events.Certificate{Serial: id.String(), NotAfter: s.clock.now().Add(time.Hour)},
	}
	change(&e)
	_, err := r.log.Append(context.Background(), &events.Commit{
		Workspace: s.ws, Envelope: systemMeta(s.ws).Envelope, At: s.clock.now(), Writes: []events.Write{{Stream: id, Events: []events.Event{e}}},
	})
	require.NoError(s.t, err)
	return id
}

// submit submits a job of two steps as the service.
func (s *site) submit(r *replica, change ...func(*events.JobSpec)) events.ID {
	s.t.Helper()
	return s.submitAs(r, systemMeta(s.ws), change...)
}

// submitAs submits a job of two steps.
func (s *site) submitAs(r *replica, by commands.Meta, change ...func(*events.JobSpec)) events.ID {
	s.t.Helper()
	spec := events.JobSpec{
		Name: "tests", Steps: []events.JobStep{{Name: "build", Run: "make"}, {Name: "test", Run: "make test"}},
		Sandbox: events.JobSandbox{Kind: "none", Network: "host"}, Priority: events.NormalPriority,
		Timeouts: events.JobTimeouts{QueueSeconds: 3600, RunSeconds: 600, CancelGraceSeconds: 10},
		Retry:    events.JobRetry{MaxAttempts: 5, On: []string{"lost", "infra"}},
	}
	for _, f := range change {
		f(&spec)
	}
	id := newID()
	_, err := r.SubmitJob(context.Background(), commands.SubmitJob{Meta: by, Job: id, Spec: spec})
	require.NoError(s.t, err)
	return id
}

// kinds returns the kinds of a job's events, in order.
func (s *site) kinds(job events.ID) (list []string) {
	s.t.Helper()
	rows, err := s.db.Query(context.Background(), `select kind from events where workspace_id = $1 and stream = $2 order by version`,
		s.ws, job)
	require.NoError(s.t, err)
	defer rows.Close()
	for rows.Next() {
		var kind string
		require.NoError(s.t, rows.Scan(&kind))
		list = append(list, strings.TrimPrefix(kind, "job."))
	}
	require.NoError(s.t, rows.Err())
	return list
}

func (s *site) state(job events.ID) (state events.JobState) {
	s.t.Helper()
	require.NoError(s.t, s.db.QueryRow(context.Background(), `select state from jobs where workspace_id = $1 and job_id = $2`, s.ws,
		job).Scan(&state))
	return state
}

func (s *site) waitForState(state events.JobState, job events.ID) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.state(job) == state }, waitLimit, 2*time.Millisecond, "%v", s.kinds(job))
}
