package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/dev/pgserver"
	"svc/engine/client"
)

// readDevJSON reads dev.json.
func (s *site) readDevJSON(t *testing.T) addresses {
	t.Helper()
	path := filepath.Join(s.data, "dev.json")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var a addresses
	require.NoError(t, json.Unmarshal(text, &a))
	return a
}

// environment returns the environment of svc-rest.
func environment(t *testing.T, restURL string) map[string]string {
	t.Helper()
	res, err := http.Get(restURL + "/environment")
	require.NoError(t, err)
	defer res.Body.Close()
	var list []string
	require.NoError(t, json.NewDecoder(res.Body).Decode(&list))
	m := map[string]string{}
	for _, entry := range list {
		name, value, _ := strings.Cut(entry, "=")
		m[name] = value
	}
	return m
}

func TestRunsEverythingAndStopsItInOrder(t *testing.T) {
	s := newSite(t)
	r := s.start(t).awaitUp()
	a := s.readDevJSON(t)
	require.Equal(t, "olivia@example.com", a.People[0].Email)
	require.Equal(t, "tok_svc_reader", a.ServiceAccounts[1].Token)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+$`, a.RestURL)

	env := environment(t, a.RestURL)
	require.Equal(t, a.DatabaseURL, env["SVC_DATABASE_URL"])
	require.Equal(t, a.EngineURL, env["SVC_ENGINE_URL"])
	require.Equal(t, a.AppURL, env["AUTH_URL"])
	require.NotEqual(t, a.RestURL, a.AppURL)
	require.Equal(t, "true", env["SVC_DEV_SIGN_IN"])
	require.GreaterOrEqual(t, len(env["AUTH_SECRET"]), 32)
	u, err := config.ParseURL(a.EngineURL)
	require.NoError(t, err)
	_, err = client.Client{URL: u, Secret: config.Secret(env["SVC_ENGINE_SHARED_SECRET"])}.Status(t.Context())
	require.NoError(t, err, "both services share a secret")
	requireWorkspace(t, a.DatabaseURL)

	code, text := r.stop()
	require.Zero(t, code, text)
	require.Regexp(t, `(?s)stopping svc-runner.*stopping svc-gateway.*stopping svc-ui.*stopping svc-rest.*`+
		`stopping svc-codehost.*stopping svc-engine.*stopping PostgreSQL.*│ stopped`, text)
	for _, secret := range []string{env["AUTH_SECRET"], env["SVC_ENGINE_SHARED_SECRET"], env["SVC_VAULT_MASTER_KEY"],
		env["SVC_OAUTH_CLIENT_SECRET"], "tok_svc_reader", password(t, a.DatabaseURL)} {
		require.NotContains(t, text, secret)
	}
	s.requireGone(t, r)
	require.Contains(t, text, "  Sign in    as olivia@example.com (Owner)\n  Password   it's a demo\n")

	// Again: same secrets and data, migrated.
	require.NoError(t, os.Remove(filepath.Join(s.data, "dev.json")))
	r = s.start(t).awaitUp()
	again := environment(t, s.readDevJSON(t).RestURL)
	require.Equal(t, env["AUTH_SECRET"], again["AUTH_SECRET"])
	require.Equal(t, env["SVC_ENGINE_SHARED_SECRET"], again["SVC_ENGINE_SHARED_SECRET"])
	require.Equal(t, env["SVC_VAULT_MASTER_KEY"], again["SVC_VAULT_MASTER_KEY"])
	require.GreaterOrEqual(t, len(env["SVC_VAULT_MASTER_KEY"]), 32)
	_, _ = r.stop()
	require.Equal(t, "developmentsvc_seeding\nsvc\n", s.readCalls(t))

	// Again without demo.json: svc-db recreates it.
	require.NoError(t, os.Remove(filepath.Join(s.data, "demo.json")))
	r = s.start(t).awaitUp()
	require.Len(t, s.readDevJSON(t).People, 1)
	_, _ = r.stop()
	require.Equal(t, "developmentsvc_seeding\nsvc\ndevelopmentsvc\n", s.readCalls(t))
}

func requireWorkspace(t *testing.T, database string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer c.Close(context.WithoutCancel(t.Context()))
	var name, workspace string
	require.NoError(t, c.QueryRow(t.Context(), `select current_database(), workspace_id::text from logs`).Scan(&name, &workspace))
	require.Equal(t, "svc", name)
	require.Equal(t, demoWorkspace, workspace)
}

func password(t *testing.T, address string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(address)
	require.NoError(t, err)
	require.NotEmpty(t, cfg.Password)
	return cfg.Password
}

// The banner stays on the terminal, and the log has what is not shown. What failed is shown.
func TestTerminalShowsTheBannerAndErrors(t *testing.T) {
	s := newSite(t, "SVC_VERBOSE=false")
	r := s.start(t).awaitUp()
	require.NotContains(t, r.text.String(), "│ pid", "svc-db and the services said it")
	_, text := r.stop()
	_, last, _ := strings.Cut(text, "The service runs")
	require.Regexp(t, `^\. Ctrl-C stops it\.\n\n  Web app    http://[^\n]+/\n  Sign in    as olivia@example\.com \(Owner\)\n`+
		`(  [A-Z][^\n]+\n){6}\n(svc +│ [^\n]+\n)+\n$`, last)
	require.Contains(t, last, "  Log        "+filepath.Join(s.data, "log/svc.log"))
	requireLog := func(want string) {
		t.Helper()
		logged, err := os.ReadFile(filepath.Join(s.data, "log/svc.log"))
		require.NoError(t, err)
		require.Regexp(t, want, string(logged))
	}
	for _, name := range []string{"svc-db", "svc-engine", "svc-codehost", "svc-rest", "svc-ui", "svc-gateway", "svc-runner"} {
		requireLog(`(?m)^` + name + ` +│ pid \d+$`)
	}
	requireLog(`(?m)^svc +│ stopping svc-rest$`)

	_, text = s.start(t, "SVC_TEST_REST_EXIT=4").wait()
	require.Regexp(t, `(?s)svc-rest   │ pid \d+\n.*svc-rest ended by itself: exit status 4 \(`, text)
	require.Contains(t, text, "("+filepath.Join(s.data, "log/svc.log")+" has all that was logged)")
	_, text = newSite(t, "SVC_VERBOSE=false").start(t, "SVC_TEST_SEED_EXIT=3").wait()
	require.Regexp(t, `(?s)svc-db     │ pid \d+\n.*svc-db: exit status 3 \(`, text)
}

func TestInterruptedSeedIsRepeated(t *testing.T) {
	s := newSite(t)
	r := s.start(t, "SVC_TEST_SEED_EXIT=3")
	code, text := r.wait()
	require.Equal(t, 1, code)
	require.Contains(t, text, "svc-db: exit status 3")
	s.requireGone(t, r)
	require.NoFileExists(t, filepath.Join(s.data, "dev.json"))

	r = s.start(t).awaitUp()
	require.Equal(t, "developmentsvc_seeding\ndevelopmentsvc_seeding\n", s.readCalls(t))
	requireWorkspace(t, s.readDevJSON(t).DatabaseURL)
	_, _ = r.stop()
}

func TestFolderAllowsOneSvc(t *testing.T) {
	s := newSite(t)
	r := s.start(t).awaitUp()
	code, text := s.start(t).wait()
	require.Equal(t, 1, code)
	require.Contains(t, text, "as process "+strconv.Itoa(r.cmd.Process.Pid))
	require.NotContains(t, text, "starting")
	require.True(t, alive(r.pids["svc-rest"]))
	_, _ = r.stop()
}

func TestKillLeavesNoProcessBehind(t *testing.T) {
	s := newSite(t)
	r := s.start(t).awaitUp()
	require.NotZero(t, commandsNaming(s.data))
	require.Len(t, r.pids, 7)
	require.NoError(t, r.cmd.Process.Kill())
	_, _ = r.wait()
	s.requireGone(t, r)

	r = s.start(t).awaitUp() // nothing prevents another start
	_, _ = r.stop()
}

func TestEndOfOneProgramStopsAll(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"svc-engine", "svc-codehost", "svc-rest", "svc-ui", "svc-gateway"} {
		r := s.start(t).awaitUp()
		require.NoError(t, syscall.Kill(r.pids[name], syscall.SIGKILL))
		code, text := r.wait()
		require.Equal(t, 1, code)
		require.Contains(t, text, name+" ended by itself: signal: killed")
		s.requireGone(t, r)
	}

	r := s.start(t, "SVC_TEST_REST_EXIT=4")
	code, text := r.wait()
	require.Equal(t, 1, code)
	require.Contains(t, text, "svc-rest ended by itself: exit status 4")
	s.requireGone(t, r)

	r = s.start(t).awaitUp()
	require.NoError(t, syscall.Kill(postmaster(t, s), syscall.SIGKILL))
	code, text = r.wait()
	require.Equal(t, 1, code)
	require.Contains(t, text, "PostgreSQL ended by itself")
	s.requireGone(t, r)
}

func postmaster(t *testing.T, s *site) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.data, "postgres", "data", "postmaster.pid"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	return pid
}

func TestSecondCtrlCKills(t *testing.T) {
	s := newSite(t, "SVC_TEST_STUBBORN=1")
	r := s.start(t).awaitUp()
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	r.until("stopping svc-rest")
	require.True(t, alive(r.pids["svc-rest"]))
	_, text := r.stop()
	require.Contains(t, text, "│ stopped")
	s.requireGone(t, r)
}

func TestAddressInUseIsNamed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	s := newSite(t)
	for _, variable := range []string{"SVC_REST_ADDR", "SVC_CODEHOST_ADDR", "SVC_ENGINE_ADDR", "SVC_METRICS_ADDR", "SVC_GATEWAY_ADDR",
		"SVC_UI_ADDR"} {
		code, text := s.start(t, variable+"="+ln.Addr().String()).wait()
		require.Equal(t, 1, code)
		require.Contains(t, text, variable+": the address "+ln.Addr().String()+" is in use")
		require.NotContains(t, text, "starting")
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	s := newSite(t)
	require.NoError(t, os.Remove(filepath.Join(s.programs, "svc-rest")))
	code, text := s.start(t).wait()
	require.Equal(t, 1, code)
	require.Contains(t, text, "svc-rest is not in "+s.programs)
	require.NoDirExists(t, s.data)
}

func TestMalformedVariableIsNamed(t *testing.T) {
	code, text := newSite(t).start(t, "SVC_DATABASE_URL=hunter2").wait()
	require.Equal(t, 1, code)
	require.Contains(t, text, "SVC_DATABASE_URL is malformed")
	require.NotContains(t, text, "hunter2")
}

func TestGivenDatabaseIsSeededOnce(t *testing.T) {
	server, err := pgserver.Start(t.Context(), pgserver.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	given := func(name string) string {
		c, err := pgx.Connect(t.Context(), server.URL("postgres"))
		require.NoError(t, err)
		defer c.Close(context.WithoutCancel(t.Context()))
		_, err = c.Exec(t.Context(), `create database `+name)
		require.NoError(t, err)
		return "SVC_DATABASE_URL=" + server.URL(name)
	}

	s := newSite(t)
	empty := given("empty")
	for range 2 { // seeded, then migrated
		r := s.start(t, empty).awaitUp()
		require.Equal(t, "SVC_DATABASE_URL="+s.readDevJSON(t).DatabaseURL, empty)
		require.Len(t, s.readDevJSON(t).People, 1)
		code, text := r.stop()
		require.Zero(t, code)
		require.NotContains(t, text, "PostgreSQL")
		require.NotContains(t, text, password(t, server.URL("empty")))
	}
	require.Equal(t, "developmentempty\nempty\n", s.readCalls(t))

	other, interrupted := newSite(t), given("interrupted")
	code, text := other.start(t, interrupted, "SVC_TEST_SEED_EXIT=3").wait()
	require.Equal(t, 1, code, text)
	r := other.start(t, interrupted).awaitUp()
	require.Len(t, other.readDevJSON(t).People, 1, "it was seeded again")
	_, _ = r.stop()
	require.Equal(t, "developmentinterrupted\ndevelopmentinterrupted\n", other.readCalls(t))

	foreign := given("others")
	c, err := pgx.Connect(t.Context(), server.URL("others"))
	require.NoError(t, err)
	_, err = c.Exec(t.Context(), `create table logs (workspace_id uuid primary key, head bigint not null default 1)`)
	require.NoError(t, err)
	_, err = c.Exec(t.Context(), `insert into logs values (gen_random_uuid())`)
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
	r = s.start(t, foreign).awaitUp()
	require.NotNil(t, s.readDevJSON(t).People)
	require.Empty(t, s.readDevJSON(t).People, "another database's people")
	_, text = r.stop()
	require.NotContains(t, text, "Sign in")
	require.True(t, strings.HasSuffix(s.readCalls(t), "\nothers\n"), s.readCalls(t))
}
