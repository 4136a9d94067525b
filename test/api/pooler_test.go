//go:build scale

package api

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"svc/test/address"
)

// behindPooler lists the parts that exercise the database most, except those with a proxy of their own.
var behindPooler = []string{
	"access", "conversations", "credential precedence", "metrics", "positions", "replicas", "revocation", "stop", "tenant isolation",
}

// TestBehindPgBouncer runs parts of TestAPI behind PgBouncer in transaction mode, where consecutive
// transactions of a client use different server connections.
func TestBehindPgBouncer(t *testing.T) {
	s := newFixture(t)
	t.Run("with PgBouncer", func(t *testing.T) {
		s.startPgBouncer(t)
		t.Run("parts", func(t *testing.T) {
			for _, name := range behindPooler {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					parts[name](t, s)
				})
			}
			t.Run("few connections", func(t *testing.T) {
				t.Parallel()
				testFewConnections(t, s)
			})
			t.Run("rebuild", func(t *testing.T) {
				t.Parallel()
				testRebuildBesidePooler(t, s)
			})
		})
	})
}

// poolSize is the number of connections that PgBouncer opens to a database.
const poolSize = 3

// startPgBouncer starts PgBouncer and routes the services started from now on through it.
func (s *fixture) startPgBouncer(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	require.NoError(t, err, "make test-scale installs it")
	folder := worldReadableDir(t, "svc-pgbouncer-")
	listen := address.Free(t)
	password, _ := s.seeded.User.Password()
	files := map[string]string{
		"users": fmt.Sprintf("%q %q\n", s.seeded.User.Username(), password),
		"pgbouncer.ini": fmt.Sprintf(`
[databases]
* = host=%s port=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
admin_users = %s
pool_mode = transaction
default_pool_size = %d
max_client_conn = 1000
server_tls_sslmode = disable
`, s.seeded.Hostname(), s.seeded.Port(), listen[strings.LastIndex(listen, ":")+1:], filepath.Join(folder, "users"),
			s.seeded.User.Username(), poolSize),
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	cmd := exec.Command(program, filepath.Join(folder, "pgbouncer.ini"))
	if os.Geteuid() == 0 { // it refuses to run as root
		cmd.Args = append(cmd.Args, "-u", "nobody")
	}
	p := s.startCommand(t, cmd, nil)
	p.waitForOutput(t, "process up")
	s.pooler = listen
	t.Cleanup(func() {
		s.pooler = ""
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.waitForExit(t)
	})
}

// worldReadableDir creates a temporary folder that programs of other users can read.
func worldReadableDir(t *testing.T, name string) string {
	t.Helper()
	folder, err := os.MkdirTemp("", name)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return folder
}

// testFewConnections shows that two services with many callers share PgBouncer's few connections, and that
// changes through one are visible through the other at once.
func testFewConnections(t *testing.T, s *fixture) {
	database := s.cloneDatabase(t)
	services := []*service{s.serve(t, database), s.serve(t, database)}
	var group errgroup.Group
	for i := range 16 {
		group.Go(func() error {
			one, other := services[i%2], services[(i+1)%2]
			for n := range 5 {
				body := fmt.Sprintf(`{"name":"crowd-%d-%d","scopes":["api.read"]}`, i, n)
				created := one.ask(t, "ada@acme", createAccount, body).is(t, "201")
				token, position := "token "+created.text(t, "token"), created.header.Get("X-Svc-Position")
				other.ask(t, token, listOneRun, "").is(t, "200")
				other.ask(t, "ada@acme", "GET /api/v1/audit?limit=1", "", "X-Svc-Min-Position: "+position).is(t, "200")
				one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+created.text(t, "account.id")+"/revoke", "").is(t, "200")
				other.ask(t, token, listOneRun, "").is(t, "401 service_token_invalid")
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.LessOrEqual(t, queryRows[int](t, services[0], `
		select count(*)::int from pg_stat_activity where datname = current_database() and backend_type = 'client backend'
			and pid <> pg_backend_pid()`)[0],
		poolSize+len(services), "each service also has a direct connection for LISTEN")
	s.requireTransactionMode(t, database)
	verified := services[0].ask(t, "ada@acme", "GET /api/v1/audit/verify", "").is(t, "200")
	require.Equal(t, true, verified.at(t, "ok"))
}

// requireTransactionMode requires PgBouncer to report transaction mode and more clients than connections.
func (s *fixture) requireTransactionMode(t *testing.T, database string) {
	t.Helper()
	u := *s.seeded
	u.Host, u.Path = s.pooler, "/pgbouncer"
	u.RawQuery += "&default_query_exec_mode=simple_protocol"
	admin, err := pgx.Connect(t.Context(), u.String())
	require.NoError(t, err)
	defer admin.Close(t.Context())
	found, err := admin.Query(t.Context(), "show pools")
	require.NoError(t, err)
	pools, err := pgx.CollectRows(found, pgx.RowToMap)
	require.NoError(t, err)
	target, err := url.Parse(database)
	require.NoError(t, err)
	for _, p := range pools {
		if "/"+fmt.Sprint(p["database"]) == target.Path {
			require.Equal(t, "transaction", fmt.Sprint(p["pool_mode"]))
			clients, err := strconv.Atoi(fmt.Sprint(p["cl_active"]))
			require.NoError(t, err)
			require.Greater(t, clients, poolSize, "more clients than connections")
			return
		}
	}
	require.Fail(t, "PgBouncer has no pool for "+target.Path, "%v", pools)
}

// testRebuildBesidePooler rebuilds views over the direct connection that svc-db needs, while requests go
// through PgBouncer.
func testRebuildBesidePooler(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	before := v.ask(t, "reader", "GET /api/v1/runs?status=active", "").is(t, "200").body
	rebuild := s.start(t, "svc-db", nil, "rebuild", "-url="+v.database)
	for {
		v.ask(t, "reader", listOneRun, "").is(t, "200")
		v.ask(t, "vera@acme", "GET /api/v1/members", "").is(t, "200")
		select {
		case <-rebuild.ended:
			status, text := rebuild.waitForExit(t)
			require.Zero(t, status, text)
			require.Contains(t, text, "service_tokens: rebuilt from")
			require.Equal(t, before, v.ask(t, "reader", "GET /api/v1/runs?status=active", "").is(t, "200").body)
			v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"Acme anew"}`).is(t, "200")
			status, text = s.start(t, "svc-db", nil, "verify", "-url="+v.database).waitForExit(t)
			require.Zero(t, status, text)
			return
		default:
		}
	}
}
