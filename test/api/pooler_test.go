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

// behindPooler are the parts that say most about the database, and do not put
// something of their own between it and the service.
var behindPooler = []string{"access", "conversations", "credentials", "metrics", "positions", "replicas", "revocation", "stop", "strangers"}

// TestBehindPgBouncer has the service work as it always does while PgBouncer
// hands its connections out for one transaction at a time: what was said in one
// connection is unknown in the next.
func TestBehindPgBouncer(t *testing.T) {
	s := newSite(t)
	t.Run("when running", func(t *testing.T) {
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
			t.Run("an operator", func(t *testing.T) {
				t.Parallel()
				testOperatorBesidePooler(t, s)
			})
		})
	})
}

// poolSize is how many connections PgBouncer makes to a database.
const poolSize = 3

// startPgBouncer has all services that start from now on go through it.
func (s *site) startPgBouncer(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	require.NoError(t, err, "make test-scale installs it")
	folder := openFolder(t, "svc-pgbouncer-")
	place := address.Free(t)
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
`, s.seeded.Hostname(), s.seeded.Port(), place[strings.LastIndex(place, ":")+1:], filepath.Join(folder, "users"), s.seeded.User.Username(),
			poolSize),
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	cmd := exec.Command(program, filepath.Join(folder, "pgbouncer.ini"))
	if os.Geteuid() == 0 { // it refuses to run as root
		cmd.Args = append(cmd.Args, "-u", "nobody")
	}
	p := s.launch(t, cmd, nil)
	p.says(t, "process up")
	s.pooler = place
	t.Cleanup(func() {
		s.pooler = ""
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.wait(t)
	})
}

// openFolder makes a folder that programs of another user can enter.
func openFolder(t *testing.T, name string) string {
	t.Helper()
	folder, err := os.MkdirTemp("", name)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return folder
}

// testFewConnections shows that two services with many callers share the few
// connections that PgBouncer has, and that each sees at once what was done by
// the other.
func testFewConnections(t *testing.T, s *site) {
	database := s.clone(t)
	services := []*service{s.serve(t, database), s.serve(t, database)}
	var group errgroup.Group
	for i := range 16 {
		group.Go(func() error {
			one, other := services[i%2], services[(i+1)%2]
			for n := range 5 {
				made := one.ask(t, "ada@acme", "POST /api/v1/service-accounts", fmt.Sprintf(`{"name":"crowd-%d-%d","scopes":["api.read"]}`, i, n)).is(t,
					"201")
				token, position := "token "+made.text(t, "token"), made.header.Get("X-Svc-Position")
				other.ask(t, token, aRead, "").is(t, "200")
				other.ask(t, "ada@acme", "GET /api/v1/audit?limit=1", "", "X-Svc-Min-Position: "+position).is(t, "200")
				one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+made.text(t, "account.id")+"/revoke", "").is(t, "200")
				other.ask(t, token, aRead, "").is(t, "401 service_token_invalid")
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.LessOrEqual(t, rows[int](t, services[0], `
		select count(*)::int from pg_stat_activity where datname = current_database() and backend_type = 'client backend'
			and pid <> pg_backend_pid()`)[0],
		poolSize+len(services), "each service listens in a connection of its own")
	s.requireTransactionMode(t, database)
	verified := services[0].ask(t, "ada@acme", "GET /api/v1/audit/verify", "").is(t, "200")
	require.Equal(t, true, verified.at(t, "ok"))
}

// requireTransactionMode asks PgBouncer itself whether clients shared connections.
func (s *site) requireTransactionMode(t *testing.T, database string) {
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
	of, err := url.Parse(database)
	require.NoError(t, err)
	for _, p := range pools {
		if "/"+fmt.Sprint(p["database"]) == of.Path {
			require.Equal(t, "transaction", fmt.Sprint(p["pool_mode"]))
			clients, err := strconv.Atoi(fmt.Sprint(p["cl_active"]))
			require.NoError(t, err)
			require.Greater(t, clients, poolSize, "more clients than connections")
			return
		}
	}
	require.Fail(t, "PgBouncer knows no pool of "+of.Path, "%v", pools)
}

// testOperatorBesidePooler shows that views are made anew, over the direct
// address that svc-db needs, while requests go on through PgBouncer.
func testOperatorBesidePooler(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t))
	before := v.ask(t, "reader", "GET /api/v1/runs?status=active", "").is(t, "200").body
	rebuild := s.start(t, "svc-db", nil, "rebuild", "-url="+v.database)
	for {
		v.ask(t, "reader", aRead, "").is(t, "200")
		v.ask(t, "vera@acme", "GET /api/v1/members", "").is(t, "200")
		select {
		case <-rebuild.ended:
			status, text := rebuild.wait(t)
			require.Zero(t, status, text)
			require.Contains(t, text, "service_tokens: rebuilt from")
			require.Equal(t, before, v.ask(t, "reader", "GET /api/v1/runs?status=active", "").is(t, "200").body)
			v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"Acme anew"}`).is(t, "200")
			status, text = s.start(t, "svc-db", nil, "verify", "-url="+v.database).wait(t)
			require.Zero(t, status, text)
			return
		default:
		}
	}
}
