package api

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testStartUp shows that a service with an invalid configuration exits with status 1 and names the
// variables, but never prints their values.
func testStartUp(t *testing.T, s *fixture) {
	const marker = "hunter2"
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	valid := append(s.environ("postgres://svc:"+marker+"@127.0.0.1:1/svc?sslmode=disable"), "PATH="+os.Getenv("PATH")) // the engine runs git

	for _, c := range []struct {
		program, set, want string
	}{
		{"svc-rest", "SVC_DATABASE_URL=", "SVC_DATABASE_URL is missing"},
		{"svc-rest", "SVC_ENGINE_URL=", "SVC_ENGINE_URL is missing"},
		{"svc-rest", "SVC_ENGINE_SHARED_SECRET=", "SVC_ENGINE_SHARED_SECRET is missing"},
		{"svc-rest", "AUTH_URL=", "AUTH_URL is missing"},
		{"svc-rest", "AUTH_SECRET=", "AUTH_SECRET is missing"},
		{"svc-rest", "SVC_DATABASE_URL=" + marker, "SVC_DATABASE_URL is malformed"},
		{"svc-rest", "SVC_DATABASE_URL=postgres://svc:" + marker + "@db:port/svc", "SVC_DATABASE_URL is malformed"},
		{"svc-rest", "SVC_DATABASE_URL=postgres://svc:a/" + marker + "@db/svc", "SVC_DATABASE_URL is malformed"},
		{"svc-rest", "SVC_DATABASE_URL=mysql://svc:" + marker + "@db/svc", "SVC_DATABASE_URL is malformed"},
		{"svc-rest", "SVC_DATABASE_URL=postgres://svc:" + marker + "@db/svc?sslmode=perhaps", "SVC_DATABASE_URL is malformed"},
		{"svc-rest", "SVC_ENGINE_URL=" + marker, "SVC_ENGINE_URL is malformed"},
		{"svc-rest", "SVC_ENGINE_SHARED_SECRET=" + marker, "SVC_ENGINE_SHARED_SECRET is malformed: want at least 16 bytes"},
		{"svc-rest", "AUTH_URL=" + marker, "AUTH_URL is malformed"},
		{"svc-rest", "AUTH_SECRET=" + marker, "AUTH_SECRET is malformed: want at least 32 bytes"},
		{"svc-rest", "SVC_RATE_LIMIT=" + marker, "SVC_RATE_LIMIT is malformed"},
		{"svc-rest", "SVC_RATE_LIMIT=-1", "SVC_RATE_LIMIT is malformed"},
		{"svc-rest", "SVC_DEV_SIGN_IN=" + marker, "SVC_DEV_SIGN_IN is malformed"},
		{"svc-rest", "SVC_LOG_LEVEL=" + marker, "SVC_LOG_LEVEL is malformed"},
		{"svc-rest", "SVC_REST_ADDR=" + marker, "SVC_REST_ADDR is malformed"},
		{"svc-rest", "SVC_REST_ADDR=127.0.0.1:65536", "SVC_REST_ADDR is malformed"},
		{"svc-rest", "SVC_REST_ADDR=" + taken.Addr().String(), "SVC_REST_ADDR: the address " + taken.Addr().String() + " is in use"},
		{"svc-rest", "AUTH_URL=https://svc.example", "SVC_DEV_SIGN_IN must not be on where AUTH_URL is https"},
		{"svc-rest", "AUTH_URL=HTTPS://svc.example", "SVC_DEV_SIGN_IN must not be on where AUTH_URL is https"},
		{"svc-engine", "SVC_ENGINE_SHARED_SECRET=", "SVC_ENGINE_SHARED_SECRET is missing"},
		{"svc-engine", "SVC_ENGINE_SHARED_SECRET=" + marker, "SVC_ENGINE_SHARED_SECRET is malformed: want at least 16 bytes"},
		{"svc-engine", "SVC_ENGINE_ADDR=" + marker, "SVC_ENGINE_ADDR is malformed"},
		{"svc-engine", "SVC_ENGINE_ADDR=" + taken.Addr().String(), "SVC_ENGINE_ADDR: the address " + taken.Addr().String() + " is in use"},
	} {
		status, text := s.start(t, c.program, append(valid, c.set)).waitForExit(t)
		require.Equal(t, 1, status, c.set)
		require.Contains(t, text, c.want, c.set)
		require.NotContains(t, text, marker, c.set)
		require.NotContains(t, text, "listening", c.set)
		require.NotContains(t, text, "goroutine ", c.set)
	}

	status, text := s.start(t, "svc-rest", nil).waitForExit(t)
	require.Equal(t, 1, status)
	for _, name := range []string{"SVC_DATABASE_URL", "SVC_ENGINE_URL", "SVC_ENGINE_SHARED_SECRET", "AUTH_URL", "AUTH_SECRET"} {
		require.Contains(t, text, name+" is missing", "all are reported at once")
	}

	t.Run("the configuration is printed", func(t *testing.T) {
		v := s.serve(t, "postgres://svc:"+marker+"@127.0.0.1:1/svc?sslmode=disable") // starts without the database
		v.expectsErrors = true
		text, _ := v.out.read()
		line, _, _ := strings.Cut(text, "\n")
		for _, part := range []string{
			"msg=configuration", `SVC_DATABASE_URL="postgres://svc:[redacted]@127.0.0.1:1/svc?sslmode=disable&pool_max_conns=8"`,
			"AUTH_SECRET=[redacted]", "SVC_ENGINE_SHARED_SECRET=[redacted]", "SVC_ENGINE_URL=http://" + s.engine,
			"AUTH_URL=http://localhost:4000", "SVC_DEV_SIGN_IN=true", "SVC_RATE_LIMIT=0", "SVC_LOG_LEVEL=info", "SVC_REST_ADDR=127.0.0.1:0",
		} {
			require.Contains(t, line, part)
		}
		v.requireDown(t, "database")
		require.NotContains(t, v.stop(t), marker)
	})

	t.Run("password sign-in can be turned off", func(t *testing.T) {
		v := s.serve(t, s.cloneDatabase(t), "SVC_DEV_SIGN_IN=false", "AUTH_URL=https://svc.example")
		v.ask(t, "nobody", "POST /api/auth/sign-in/email", `{"email":"ada@acme.example","password":"demonstration"}`).is(t,
			"400 EMAIL_PASSWORD_DISABLED")
		v.ask(t, "ada", "GET /api/v1/workspace", "").is(t, "401 unauthenticated") // over https the cookie has another name
		a := v.ask(t, "nobody", "GET /api/v1/workspace", "", "Cookie: __Secure-"+cookieName+"="+s.sessions["ada"])
		require.Equal(t, "ada", a.is(t, "200").text(t, "slug"))
		out := v.ask(t, "nobody", "POST /api/auth/sign-out", "").is(t, "200").header.Get("Set-Cookie")
		require.Contains(t, out, "__Secure-"+cookieName+"=;")
		require.Contains(t, out, "; Secure")
	})

	t.Run("a new AUTH_SECRET signs everybody out", func(t *testing.T) {
		v := s.serve(t, s.cloneDatabase(t), "AUTH_SECRET=another-secret-that-signs-the-cookies-of-tests")
		v.ask(t, "ada", "GET /api/v1/workspace", "").is(t, "401 unauthenticated")
		v.ask(t, "reader", listOneRun, "").is(t, "200") // tokens do not depend on it
	})
}
