//go:build scale

package api

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/dev/pgserver"
	"svc/test/proxy"
)

// TestReadReplica has the service read its lists from a streaming replica of the database, whose replay
// the test pauses.
func TestReadReplica(t *testing.T) {
	primary := startCluster(t, filepath.Join(worldReadableDir(t, "svc-primary-"), "postgres"))
	admin, err := pgx.Connect(t.Context(), primary.URL("postgres"))
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), `create database seeded`)
	require.NoError(t, err)
	require.NoError(t, admin.Close(t.Context()))
	s := newFixtureOn(t, primary.URL("postgres"), primary.URL("seeded"))
	t.Run("parts", func(t *testing.T) {
		database := s.cloneDatabase(t)
		r := newReplica(t, primary, database)
		v := s.serve(t, database, "SVC_DATABASE_READ_URL="+withSmallPool(r.database), "SVC_METRICS_ADDR=127.0.0.1:0")
		v.expectsErrors = true // each 503 logs an error
		for _, part := range []struct {
			name string
			test func(*testing.T, *service, *replica)
		}{
			{"lists are read from the replica", testListsReadReplica},
			{"a minimum position waits for the replica", testMinPositionWaitsForReplica},
			{"authorization reads the primary", testAuthorizationReadsPrimary},
			{"commands read the primary", testCommandsReadPrimary},
			{"one of two replicas lags", func(t *testing.T, v *service, r *replica) {
				testReplicaThatLags(t, v, r, newReplica(t, primary, database))
			}},
			{"without the replica", testWithoutReplica},
		} {
			t.Run(part.name, func(t *testing.T) { part.test(t, v, r) })
		}
	})
}

func startCluster(t *testing.T, dir string) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	return server
}

// A replica is a hot standby of a PostgreSQL server, with a connection to one of its databases.
type replica struct {
	server   *pgserver.Server
	database string // connection string
	conn     *pgx.Conn
}

func newReplica(t *testing.T, primary *pgserver.Server, database string) *replica {
	t.Helper()
	dir := filepath.Join(worldReadableDir(t, "svc-standby-"), "postgres")
	require.NoError(t, os.Mkdir(dir, 0o700))
	program, err := exec.LookPath("pg_basebackup")
	require.NoError(t, err, "make test-scale installs it")
	out, err := exec.CommandContext(t.Context(), program, "--pgdata="+filepath.Join(dir, "data"), "--write-recovery-conf",
		"--wal-method=stream", "--checkpoint=fast", "--no-sync", "--dbname="+primary.URL("postgres")).CombinedOutput()
	require.NoError(t, err, string(out))
	password, err := os.ReadFile(filepath.Join(primary.Dir(), "password"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), password, 0o600))

	primaryURL, err := url.Parse(database)
	require.NoError(t, err)
	r := &replica{server: startCluster(t, dir)}
	r.database = r.server.URL(strings.TrimPrefix(primaryURL.Path, "/"))
	r.conn, err = pgx.Connect(t.Context(), r.database)
	require.NoError(t, err)
	var standby bool
	require.NoError(t, r.conn.QueryRow(t.Context(), `select pg_is_in_recovery()`).Scan(&standby))
	require.True(t, standby)
	return r
}

// pauseReplay stops the replica's replay until resume is called.
func (r *replica) pauseReplay(t *testing.T) (resume func()) {
	t.Helper()
	_, err := r.conn.Exec(t.Context(), `select pg_wal_replay_pause()`)
	require.NoError(t, err)
	eventually(t, func() bool {
		var state string
		require.NoError(t, r.conn.QueryRow(t.Context(), `select pg_get_wal_replay_pause_state()`).Scan(&state))
		return state == "paused"
	})
	return func() {
		_, err := r.conn.Exec(t.Context(), `select pg_wal_replay_resume()`)
		require.NoError(t, err)
	}
}

// queueRun queues a run, and returns its id and the position of its event.
func (v *service) queueRun(t *testing.T, title string) (id, position string) {
	t.Helper()
	repo := v.ask(t, "reader", "GET /api/v1/runs?status=active&limit=1", "").is(t, "200").text(t, "items.0.repo.id")
	a := v.ask(t, "ada@acme", "POST /api/v1/backlog/queue", `{"repoId":"`+repo+`","title":"`+title+`"}`).is(t, "201")
	return a.text(t, "id"), a.header.Get("X-Svc-Position")
}

const runsByTitle = "GET /api/v1/runs?status=active&q="

// listRequests read followed views, which all change when a run is queued.
var listRequests = []string{
	"GET /api/v1/runs?status=active", "GET /api/v1/inbox", "GET /api/v1/insights", "GET /api/v1/dashboard", "GET /api/v1/audit",
}

func testListsReadReplica(t *testing.T, v *service, r *replica) {
	id, position := v.queueRun(t, "seen")
	at := "X-Svc-Min-Position: " + position
	require.Contains(t, v.ask(t, "reader", runsByTitle+"seen", "", at).is(t, "200").body, id)
	for _, line := range listRequests {
		v.ask(t, "ada@acme", line, "", at).is(t, "200")
	}

	defer r.pauseReplay(t)()
	before := map[string]string{}
	for _, line := range listRequests {
		before[line] = v.ask(t, "ada@acme", line, "").is(t, "200").body
	}
	id, position = v.queueRun(t, "not-seen")
	at = "X-Svc-Min-Position: " + position
	v.ask(t, "ada@acme", "GET /api/v1/audit/state?seq="+position, "", at).is(t, "200") // reads the log of the primary
	v.ask(t, "ada@acme", "GET /api/v1/members", "", at).is(t, "200")
	for _, line := range listRequests {
		require.Equal(t, before[line], v.ask(t, "ada@acme", line, "").is(t, "200").body, line)
	}
	v.ask(t, "reader", "GET /api/v1/runs/"+id, "").is(t, "404 run_not_found")
	m := &metricsEndpoint{v.listenAddress(t, func(line string) bool { return strings.Contains(line, "listener=metrics") })}
	require.Positive(t, m.scrape(t).value("svc_database_pool_acquires_total", "pool", "read"))
}

func testMinPositionWaitsForReplica(t *testing.T, v *service, r *replica) {
	resume := r.pauseReplay(t)
	id, position := v.queueRun(t, "waited-for")
	at := "X-Svc-Min-Position: " + position
	start := time.Now()
	a := v.ask(t, "reader", runsByTitle+"waited-for", "", at).is(t, "503 not_caught_up")
	require.GreaterOrEqual(t, time.Since(start), 4900*time.Millisecond)
	require.Equal(t, "1", a.header.Get("Retry-After"))

	answered := make(chan answer, 1)
	go func() {
		defer close(answered) // also if ask fails the test
		answered <- v.ask(t, "reader", runsByTitle+"waited-for", "", at)
	}()
	select {
	case a := <-answered:
		require.Fail(t, "it did not wait", a.body)
	case <-time.After(100 * time.Millisecond):
	}
	resume()
	require.Contains(t, (<-answered).is(t, "200").body, id)
}

func testAuthorizationReadsPrimary(t *testing.T, v *service, r *replica) {
	cookie := "Cookie: " + cookieName + "=" + v.signIn(t, "vera")
	created := v.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"known","scopes":["api.read"]}`).is(t, "201")
	known := "token " + created.text(t, "token")
	v.ask(t, known, listOneRun, "", "X-Svc-Min-Position: "+created.header.Get("X-Svc-Position")).is(t, "200") // the replica has replayed it

	defer r.pauseReplay(t)()
	fresh := v.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"fresh","scopes":["api.read"]}`).is(t, "201")
	v.ask(t, "token "+fresh.text(t, "token"), listOneRun, "").is(t, "200")
	v.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+created.text(t, "account.id")+"/revoke", "").is(t, "200")
	v.ask(t, known, listOneRun, "").is(t, "401 service_token_invalid")
	rotated := v.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+fresh.text(t, "account.id")+"/rotate", "").is(t, "200")
	v.ask(t, "token "+fresh.text(t, "token"), listOneRun, "").is(t, "401 service_token_invalid")
	v.ask(t, "token "+rotated.text(t, "token"), listOneRun, "").is(t, "200")

	v.ask(t, "max@acme", "GET /api/v1/audit", "").is(t, "200")
	v.ask(t, "ada@acme", "PATCH /api/v1/members/"+v.fixture.id(t, "member max@acme"), `{"role":"Viewer"}`).is(t, "200")
	v.ask(t, "max@acme", "GET /api/v1/audit", "").is(t, "403 role_required")
	v.ask(t, "nobody", listOneRun, "", cookie, "X-Svc-Tenant: acme").is(t, "200")
	v.ask(t, "ada@acme", "DELETE /api/v1/members/"+v.fixture.id(t, "member vera@acme"), "").is(t, "204")
	v.ask(t, "nobody", listOneRun, "", cookie, "X-Svc-Tenant: acme").is(t, "404 tenant_not_found")
	v.ask(t, "nobody", "POST /api/auth/sign-out", "", cookie).is(t, "200")
	v.ask(t, "nobody", listOneRun, "", cookie).is(t, "401 unauthenticated")
}

func testCommandsReadPrimary(t *testing.T, v *service, r *replica) {
	defer r.pauseReplay(t)()
	id, position := v.queueRun(t, "cancelled-at-once")
	a := v.ask(t, "ada@acme", "POST /api/v1/runs/"+id+"/cancel", `{"reason":"the replica knows nothing of it"}`).is(t, "202")
	require.Equal(t, "cancelled", a.text(t, "status"))
	before, err := strconv.Atoi(position)
	require.NoError(t, err)
	after, err := strconv.Atoi(a.header.Get("X-Svc-Position"))
	require.NoError(t, err)
	require.Greater(t, after, before)
	verified := v.ask(t, "ada@acme", "GET /api/v1/audit/verify", "", "X-Svc-Min-Position: "+a.header.Get("X-Svc-Position")).is(t, "200")
	require.Equal(t, true, verified.at(t, "ok"))
}

// testReplicaThatLags shows that a minimum position holds if connections lead to several replicas.
func testReplicaThatLags(t *testing.T, v *service, r, lagging *replica) {
	address, err := url.Parse(r.database)
	require.NoError(t, err)
	behind, err := url.Parse(lagging.database)
	require.NoError(t, err)
	address.Host = proxy.New(t, address.Host, behind.Host).Address()
	address.RawQuery += "&pool_max_conns=2" // one to each
	several := v.fixture.serve(t, v.database, "SVC_DATABASE_READ_URL="+address.String())
	several.expectsErrors = true

	defer lagging.pauseReplay(t)()
	id, position := several.queueRun(t, "on-one-of-two")
	const each = 5
	lines := []string{runsByTitle + "on-one-of-two", "GET /api/v1/runs/" + id, "GET /api/v1/runs/" + id + "/events", "GET /api/v1/dashboard"}
	answers := make(chan answer, each*len(lines))
	var asking, others sync.WaitGroup
	var asked atomic.Bool
	for range 4 { // keep both connections in use, so that consecutive reads are of either
		others.Go(func() {
			for !asked.Load() {
				several.ask(t, "mia", "GET /api/v1/workspace", "")
			}
		})
	}
	for _, line := range lines {
		asking.Go(func() {
			for range each {
				answers <- several.ask(t, "ada@acme", line, "", "X-Svc-Min-Position: "+position)
			}
		})
	}
	asking.Wait()
	asked.Store(true)
	others.Wait()
	close(answers)
	shown := 0
	for a := range answers {
		if a.status == 503 {
			a.is(t, "503 not_caught_up")
			continue
		}
		require.Contains(t, a.is(t, "200").body, "on-one-of-two")
		shown++
	}
	require.Positive(t, shown)
}

// testWithoutReplica shows that lists fail without the replica, unless SVC_DATABASE_READ_URL names the
// primary too. Other requests are not affected.
func testWithoutReplica(t *testing.T, v *service, r *replica) {
	both, err := url.Parse(withSmallPool(r.database))
	require.NoError(t, err)
	primaryURL, err := url.Parse(v.database)
	require.NoError(t, err)
	both.Host += "," + primaryURL.Host
	both.RawQuery += "&target_session_attrs=prefer-standby"
	careful := v.fixture.serve(t, v.database, "SVC_DATABASE_READ_URL="+both.String())
	careful.expectsErrors = true
	resume := r.pauseReplay(t)
	id, position := careful.queueRun(t, "only-in-the-database")
	careful.ask(t, "reader", runsByTitle+"only-in-the-database", "", "X-Svc-Min-Position: "+position).is(t, "503 not_caught_up")
	resume()

	require.NoError(t, r.server.Kill())
	eventually(t, func() bool { return v.ask(t, "reader", listOneRun, "").status == 503 })
	v.ask(t, "reader", listOneRun, "").is(t, "503 unavailable")
	v.ask(t, "ada@acme", "GET /api/v1/members", "").is(t, "200")
	v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"Acme goes on"}`).is(t, "200")
	v.ask(t, "nobody", "GET /health/ready", "").is(t, "200")
	eventually(t, func() bool {
		a := careful.ask(t, "reader", runsByTitle+"only-in-the-database", "")
		return a.status == 200 && strings.Contains(a.body, id)
	}, "it does not fall back to the primary")
}
