//go:build scale

package api

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/dev/pgserver"
)

// TestReadReplica has the service read its lists from a streaming replica of
// the database, which stands still whenever the test wants.
func TestReadReplica(t *testing.T) {
	primary := startCluster(t, filepath.Join(openFolder(t, "svc-primary-"), "postgres"))
	admin, err := pgx.Connect(t.Context(), primary.URL("postgres"))
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), `create database seeded`)
	require.NoError(t, err)
	require.NoError(t, admin.Close(t.Context()))
	s := newSiteOn(t, primary.URL("postgres"), primary.URL("seeded"))
	t.Run("when running", func(t *testing.T) {
		database := s.clone(t)
		r := newReplica(t, primary, database)
		v := s.serve(t, database, "SVC_DATABASE_READ_URL="+fewConnections(r.database), "SVC_METRICS_ADDR=127.0.0.1:0")
		v.troubled = true // each 503 has its line
		for _, part := range []struct {
			name string
			test func(*testing.T, *service, *replica)
		}{
			{"lists come from the replica", testListsAreRead},
			{"who waits for a position waits there", testWaitsForReplica},
			{"what opens doors is never old", testDoorsAreNeverOld},
			{"commands never read it", testCommandsReadThePrimary},
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

// A replica is a hot standby of a server, and one of its databases.
type replica struct {
	server   *pgserver.Server
	database string // address
	conn     *pgx.Conn
}

func newReplica(t *testing.T, primary *pgserver.Server, database string) *replica {
	t.Helper()
	dir := filepath.Join(openFolder(t, "svc-standby-"), "postgres")
	require.NoError(t, os.Mkdir(dir, 0o700))
	program, err := exec.LookPath("pg_basebackup")
	require.NoError(t, err, "make test-scale installs it")
	out, err := exec.CommandContext(t.Context(), program, "--pgdata="+filepath.Join(dir, "data"), "--write-recovery-conf",
		"--wal-method=stream", "--checkpoint=fast", "--no-sync", "--dbname="+primary.URL("postgres")).CombinedOutput()
	require.NoError(t, err, string(out))
	password, err := os.ReadFile(filepath.Join(primary.Dir(), "password"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), password, 0o600))

	of, err := url.Parse(database)
	require.NoError(t, err)
	r := &replica{server: startCluster(t, dir)}
	r.database = r.server.URL(strings.TrimPrefix(of.Path, "/"))
	r.conn, err = pgx.Connect(t.Context(), r.database)
	require.NoError(t, err)
	var standby bool
	require.NoError(t, r.conn.QueryRow(t.Context(), `select pg_is_in_recovery()`).Scan(&standby))
	require.True(t, standby)
	return r
}

// stall keeps the replica from moving on until the function is called.
func (r *replica) stall(t *testing.T) (goOn func()) {
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

// queue has a run made, and returns its title and the position it is at.
func (v *service) queue(t *testing.T, title string) (id, position string) {
	t.Helper()
	repo := v.ask(t, "reader", "GET /api/v1/runs?status=active&limit=1", "").is(t, "200").text(t, "items.0.repo.id")
	a := v.ask(t, "ada@acme", "POST /api/v1/backlog/queue", `{"repoId":"`+repo+`","title":"`+title+`"}`).is(t, "201")
	return a.text(t, "id"), a.header.Get("X-Svc-Position")
}

const runsByTitle = "GET /api/v1/runs?status=active&q="

// lists are the GETs that read followed views, with what each has of a new run.
var lists = []string{
	"GET /api/v1/runs?status=active", "GET /api/v1/inbox", "GET /api/v1/insights", "GET /api/v1/dashboard", "GET /api/v1/audit",
}

func testListsAreRead(t *testing.T, v *service, r *replica) {
	id, position := v.queue(t, "seen")
	at := "X-Svc-Min-Position: " + position
	require.Contains(t, v.ask(t, "reader", runsByTitle+"seen", "", at).is(t, "200").body, id)
	for _, line := range lists {
		v.ask(t, "ada@acme", line, "", at).is(t, "200")
	}

	goOn := r.stall(t)
	defer goOn()
	before := map[string]string{}
	for _, line := range lists {
		before[line] = v.ask(t, "ada@acme", line, "").is(t, "200").body
	}
	id, position = v.queue(t, "not-seen")
	at = "X-Svc-Min-Position: " + position
	v.ask(t, "ada@acme", "GET /api/v1/audit/state?seq="+position, "", at).is(t, "200") // is no list, and not old
	v.ask(t, "ada@acme", "GET /api/v1/members", "", at).is(t, "200")
	for _, line := range lists {
		require.Equal(t, before[line], v.ask(t, "ada@acme", line, "").is(t, "200").body, line)
	}
	v.ask(t, "reader", "GET /api/v1/runs/"+id, "").is(t, "404 run_not_found")
	m := &metrics{v.listens(t, func(line string) bool { return strings.Contains(line, "listener=metrics") })}
	require.Positive(t, m.scrape(t).value("svc_database_pool_acquires_total", "pool", "read"))
}

func testWaitsForReplica(t *testing.T, v *service, r *replica) {
	goOn := r.stall(t)
	id, position := v.queue(t, "waited-for")
	at := "X-Svc-Min-Position: " + position
	begin := time.Now()
	a := v.ask(t, "reader", runsByTitle+"waited-for", "", at).is(t, "503 not_caught_up")
	require.GreaterOrEqual(t, time.Since(begin), 4900*time.Millisecond)
	require.Equal(t, "1", a.header.Get("Retry-After"))

	answered := make(chan answer, 1)
	go func() {
		defer close(answered) // whatever happens to it
		answered <- v.ask(t, "reader", runsByTitle+"waited-for", "", at)
	}()
	select {
	case a := <-answered:
		require.Fail(t, "it did not wait", a.body)
	case <-time.After(100 * time.Millisecond):
	}
	goOn()
	require.Contains(t, (<-answered).is(t, "200").body, id)
}

func testDoorsAreNeverOld(t *testing.T, v *service, r *replica) {
	cookie := "Cookie: " + cookieName + "=" + v.signIn(t, "vera")
	made := v.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"known","scopes":["api.read"]}`).is(t, "201")
	known := "token " + made.text(t, "token")
	v.ask(t, known, aRead, "", "X-Svc-Min-Position: "+made.header.Get("X-Svc-Position")).is(t, "200") // the replica has it too

	defer r.stall(t)()
	fresh := v.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"fresh","scopes":["api.read"]}`).is(t, "201")
	v.ask(t, "token "+fresh.text(t, "token"), aRead, "").is(t, "200")
	v.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+made.text(t, "account.id")+"/revoke", "").is(t, "200")
	v.ask(t, known, aRead, "").is(t, "401 service_token_invalid")
	rotated := v.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+fresh.text(t, "account.id")+"/rotate", "").is(t, "200")
	v.ask(t, "token "+fresh.text(t, "token"), aRead, "").is(t, "401 service_token_invalid")
	v.ask(t, "token "+rotated.text(t, "token"), aRead, "").is(t, "200")

	v.ask(t, "max@acme", "GET /api/v1/audit", "").is(t, "200")
	v.ask(t, "ada@acme", "PATCH /api/v1/members/"+v.site.id(t, "member max@acme"), `{"role":"Viewer"}`).is(t, "200")
	v.ask(t, "max@acme", "GET /api/v1/audit", "").is(t, "403 role_required")
	v.ask(t, "nobody", aRead, "", cookie, "X-Svc-Tenant: acme").is(t, "200")
	v.ask(t, "ada@acme", "DELETE /api/v1/members/"+v.site.id(t, "member vera@acme"), "").is(t, "204")
	v.ask(t, "nobody", aRead, "", cookie, "X-Svc-Tenant: acme").is(t, "404 tenant_not_found")
	v.ask(t, "nobody", "POST /api/auth/sign-out", "", cookie).is(t, "200")
	v.ask(t, "nobody", aRead, "", cookie).is(t, "401 unauthenticated")
}

func testCommandsReadThePrimary(t *testing.T, v *service, r *replica) {
	defer r.stall(t)()
	id, position := v.queue(t, "cancelled-at-once")
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

// Without the replica there are no lists, unless the address names the database
// too; all else goes on.
func testWithoutReplica(t *testing.T, v *service, r *replica) {
	both, err := url.Parse(fewConnections(r.database))
	require.NoError(t, err)
	of, err := url.Parse(v.database)
	require.NoError(t, err)
	both.Host += "," + of.Host
	both.RawQuery += "&target_session_attrs=prefer-standby"
	careful := v.site.serve(t, v.database, "SVC_DATABASE_READ_URL="+both.String())
	careful.troubled = true
	goOn := r.stall(t)
	id, position := careful.queue(t, "only-in-the-database")
	careful.ask(t, "reader", runsByTitle+"only-in-the-database", "", "X-Svc-Min-Position: "+position).is(t, "503 not_caught_up")
	goOn()

	require.NoError(t, r.server.Kill())
	eventually(t, func() bool { return v.ask(t, "reader", aRead, "").status == 503 })
	v.ask(t, "reader", aRead, "").is(t, "503 unavailable")
	v.ask(t, "ada@acme", "GET /api/v1/members", "").is(t, "200")
	v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"Acme goes on"}`).is(t, "200")
	v.ask(t, "nobody", "GET /health/ready", "").is(t, "200")
	eventually(t, func() bool {
		a := careful.ask(t, "reader", runsByTitle+"only-in-the-database", "")
		return a.status == 200 && strings.Contains(a.body, id)
	}, "it does not turn to the database")
}
