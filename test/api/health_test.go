package api

import (
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/test/address"
	"svc/test/proxy"
)

// testHealth shows that readiness soon names each dependency that does not answer, and recovers
// with it. Liveness is not affected.
func testHealth(t *testing.T, s *fixture) {
	database, err := url.Parse(s.cloneDatabase(t))
	require.NoError(t, err)
	db := proxy.New(t, database.Host)
	database.Host = db.Address()
	environ := s.engineEnviron(address.Free(t))
	engine := s.start(t, "svc-engine", environ)
	v := s.serve(t, database.String(), "SVC_ENGINE_URL=http://"+engine.address(t))
	v.expectsErrors = true
	v.requireReady(t)

	t.Run("an engine that hangs", func(t *testing.T) {
		require.NoError(t, engine.cmd.Process.Signal(syscall.SIGSTOP))
		v.requireDown(t, "engine")
		require.NoError(t, engine.cmd.Process.Signal(syscall.SIGCONT))
		v.requireReady(t)
	})
	t.Run("an engine that has stopped", func(t *testing.T) {
		engine.stop(t)
		v.requireDown(t, "engine")
		v.ask(t, "reader", listOneRun, "").is(t, "200") // reads need no engine
		a := v.ask(t, "ada@acme", "POST /api/v1/repos", `{"url":"https://code.example/acme/site","credential":"x"}`).is(t,
			"503 engine_unavailable")
		require.Equal(t, "The engine is not available right now.", a.text(t, "message"))
	})
	t.Run("a database that is unreachable too", func(t *testing.T) {
		db.Set(proxy.Cut)
		v.requireDown(t, "database", "engine")
		a := v.ask(t, "reader", listOneRun, "").is(t, "503 unavailable")
		require.NotEmpty(t, a.header.Get("Retry-After"))
	})
	db.Set(proxy.Up)
	s.start(t, "svc-engine", environ)
	t.Run("both are back", func(t *testing.T) {
		v.requireReady(t)
		v.ask(t, "reader", listOneRun, "").is(t, "200")
	})
	t.Run("a database that hangs", func(t *testing.T) {
		db.Set(proxy.Stalled)
		v.requireDown(t, "database")
		db.Set(proxy.Up)
		v.requireReady(t)
	})
	t.Run("a wrong engine secret", func(t *testing.T) {
		v := s.serve(t, s.cloneDatabase(t), "SVC_ENGINE_SHARED_SECRET=another-secret-than-the-engine-has")
		v.expectsErrors = true
		v.waitForOutput(t, "SVC_ENGINE_SHARED_SECRET must hold the same value in both services")
		v.requireReady(t) // the check does not authenticate
		v.ask(t, "ada@acme", "POST /api/v1/repos", `{"url":"https://code.example/acme/site","credential":"x"}`).is(t, "503 engine_unavailable")
		text, _ := v.out.read()
		require.Equal(t, 1, strings.Count(text, "level=ERROR"))
		require.NotContains(t, text, "another-secret")
	})
}

// readinessTimeout bounds an answer of /health/ready: about two seconds on an idle machine.
const readinessTimeout = 20 * time.Second

// requireDown waits until readiness answers 503 and names exactly the given dependencies.
func (v *service) requireDown(t *testing.T, names ...string) {
	t.Helper()
	v.ask(t, "nobody", "GET /health/live", "").is(t, "200")
	var a answer
	eventually(t, func() bool { // a signal takes effect with a delay
		start := time.Now()
		a = v.ask(t, "nobody", "GET /health/ready", "")
		require.Less(t, time.Since(start), readinessTimeout)
		return a.status == 503 && len(a.at(t, "error").(map[string]any)) == len(names)
	})
	require.Equal(t, "error", a.text(t, "status"))
	require.Len(t, a.at(t, "info"), 2-len(names), a.body)
	for _, name := range names {
		require.Equal(t, "down", a.text(t, "error."+name+".status"))
		message := a.text(t, "error."+name+".message")
		require.Contains(t, message, name)
		require.NotContains(t, message, "127.0.0.1", "the message contains an address")
	}
	v.ask(t, "nobody", "GET /health/live", "").is(t, "200")
}

// requireReady waits until readiness answers 200 with every dependency up.
func (v *service) requireReady(t *testing.T) {
	t.Helper()
	eventually(t, func() bool {
		return v.ask(t, "nobody", "GET /health/ready", "").status == 200
	})
	a := v.ask(t, "nobody", "GET /health/ready", "").is(t, "200")
	require.JSONEq(t, `{"status":"ok","info":{"database":{"status":"up"},"engine":{"status":"up"}},"error":{}}`, a.body)
}

// testPositions shows that a request waits five seconds for its view to reach X-Svc-Min-Position, and
// then gets 503 not_caught_up.
func testPositions(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	for line, as := range map[string]string{
		listOneRun: "reader", "GET /api/v1/audit": "ada@acme", "GET /api/v1/members": "vera@acme", "GET /api/v1/runs/" + noID: "leo@acme",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			a := v.ask(t, as, line, "", "X-Svc-Min-Position: 9223372036854775807").is(t, "503 not_caught_up")
			require.GreaterOrEqual(t, time.Since(start), 4900*time.Millisecond)
			require.Equal(t, "1", a.header.Get("Retry-After"))
		})
	}
}
