package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

// TestMain runs svc-rest itself if a test starts it as a child.
func TestMain(m *testing.M) {
	if os.Getenv("SVC_TEST_MAIN") != "" {
		main()
		return
	}
	pgtest.Main(m)
}

// testTimeout is the timeout of every wait.
const testTimeout = time.Minute

// Secrets that must never be shown.
const (
	databasePassword = "marker-of-the-database"
	engineSecret     = "marker-of-the-engine"
	authSecret       = "marker-of-the-cookies-of-people-who-sign-in"
	clientSecret     = "marker-of-the-client"
	olderKey         = "marker-of-the-older-key-of-the-vault"
	busPassword      = "marker-of-the-bus"
	newerKey         = "marker-of-the-newer-key-of-the-vault"
)

// completeEnviron is an environment with which svc-rest starts, although its engine and database do not
// exist.
func completeEnviron() []string {
	return []string{
		"SVC_REST_ADDR=127.0.0.1:0", "SVC_DATABASE_URL=postgres://svc:" + databasePassword + "@127.0.0.1:1/svc",
		"SVC_ENGINE_URL=http://127.0.0.1:1", "SVC_ENGINE_SHARED_SECRET=" + engineSecret,
		"AUTH_URL=http://127.0.0.1:4000", "AUTH_SECRET=" + authSecret, "SVC_VAULT_MASTER_KEY=" + olderKey,
		"SVC_OAUTH_URL=http://127.0.0.1:4010", "SVC_OAUTH_CLIENT_ID=svc", "SVC_OAUTH_CLIENT_SECRET=" + clientSecret,
	}
}

func command(t *testing.T, args []string, environ ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append([]string{"SVC_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0"}, environ...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func requireNoSecret(t *testing.T, text string) {
	t.Helper()
	require.NotContains(t, text, "marker-of", "a secret was said")
	require.NotContains(t, text, "DATA RACE")
}

// fails runs svc-rest, which must exit with 1, and returns its output.
func fails(t *testing.T, args []string, environ ...string) string {
	t.Helper()
	out, err := command(t, args, append(completeEnviron(), environ...)...).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, string(out))
	require.Equal(t, 1, exit.ExitCode(), string(out))
	requireNoSecret(t, string(out))
	return string(out)
}

// A running is a svc-rest that listens.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bufio.Scanner
	seen strings.Builder // output so far
	url  string
}

var listens = regexp.MustCompile(`msg=listening address=(\S+)`)

func start(t *testing.T, environ ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: command(t, nil, append(completeEnviron(), environ...)...)}
	pipe, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	// Kills a svc-rest that prints nothing more, which ends the wait.
	timer := time.AfterFunc(testTimeout, func() { _ = r.cmd.Process.Kill() })
	t.Cleanup(func() {
		timer.Stop()
		_ = r.cmd.Process.Kill() // it may have ended
		_ = r.cmd.Wait()
	})
	r.out = bufio.NewScanner(io.TeeReader(pipe, &r.seen))
	r.url = "http://" + listens.FindStringSubmatch(r.until("msg=listening"))[1]
	return r
}

// until returns the next line that contains text.
func (r *running) until(text string) string {
	r.t.Helper()
	for r.out.Scan() {
		if strings.Contains(r.out.Text(), text) {
			return r.out.Text()
		}
	}
	require.FailNow(r.t, "not said: "+text, r.seen.String())
	return ""
}

// statusOf returns the status of a path.
func (r *running) statusOf(path string) int {
	r.t.Helper()
	res, err := http.Get(r.url + path)
	require.NoError(r.t, err)
	require.NoError(r.t, res.Body.Close())
	return res.StatusCode
}

// stop ends it by SIGTERM and returns all its output.
func (r *running) stop() string {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(syscall.SIGTERM))
	r.until("msg=stopped")
	for r.out.Scan() { // to its end
	}
	require.NoError(r.t, r.cmd.Wait())
	requireNoSecret(r.t, r.seen.String())
	return r.seen.String()
}

func TestPrintsConfigurationWithoutSecrets(t *testing.T) {
	t.Parallel()
	r := start(t, "SVC_VAULT_MASTER_KEY="+newerKey+","+olderKey, "SVC_BUS_URL=nats://svc:"+busPassword+"@127.0.0.1:1,nats://127.0.0.1:2")
	_, err := command(t, []string{"-healthcheck"}, "SVC_REST_ADDR="+strings.TrimPrefix(r.url, "http://")).CombinedOutput()
	require.NoError(t, err, "it is alive, though its database is not there")
	require.Equal(t, http.StatusServiceUnavailable, r.statusOf("/health/ready"))

	r.until("the bus is unavailable") // the bus does not exist either
	text := r.stop()
	require.Contains(t, text, "msg=configuration")
	for _, want := range []string{
		"SVC_ENGINE_SHARED_SECRET=[redacted]", "AUTH_SECRET=[redacted]", "SVC_OAUTH_CLIENT_SECRET=[redacted]",
		`SVC_VAULT_MASTER_KEY="[[redacted] [redacted]]"`, "SVC_OAUTH_CLIENT_ID=svc", "SVC_OAUTH_URL=http://127.0.0.1:4010",
		"SVC_ENGINE_URL=http://127.0.0.1:1", "AUTH_URL=http://127.0.0.1:4000", "127.0.0.1:1/svc",
		`SVC_BUS_URL="[nats://svc:[redacted]@127.0.0.1:1 nats://127.0.0.1:2]"`,
	} {
		require.Contains(t, text, want)
	}
	require.Contains(t, fails(t, []string{"-healthcheck"}, "SVC_REST_ADDR="+strings.TrimPrefix(r.url, "http://")), "refused")
}

func TestStartupFailuresNameTheVariable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ variable, value, want string }{
		{"SVC_DATABASE_URL", "", "SVC_DATABASE_URL is missing"},
		{"SVC_DATABASE_URL", databasePassword, "SVC_DATABASE_URL is malformed"},
		{"SVC_DATABASE_URL", "http://svc:" + databasePassword + "@127.0.0.1/svc", "SVC_DATABASE_URL is malformed"},
		{"SVC_DATABASE_READ_URL", databasePassword, "SVC_DATABASE_READ_URL is malformed"},
		{"SVC_DATABASE_READ_URL", "http://svc:" + databasePassword + "@127.0.0.1/svc", "SVC_DATABASE_READ_URL is malformed"},
		{"SVC_METRICS_ADDR", "nowhere", "SVC_METRICS_ADDR is malformed"},
		{"SVC_ENGINE_URL", "", "SVC_ENGINE_URL is missing"},
		{"SVC_ENGINE_SHARED_SECRET", "marker-of", "SVC_ENGINE_SHARED_SECRET is malformed: want at least 16 bytes"},
		{"AUTH_URL", "", "AUTH_URL is missing"},
		{"AUTH_SECRET", "marker-of-one-too-short", "AUTH_SECRET is malformed: want at least 32 bytes"},
		{"SVC_VAULT_MASTER_KEY", "", "SVC_VAULT_MASTER_KEY is missing"},
		{"SVC_VAULT_MASTER_KEY", "marker-of-one-too-short", "SVC_VAULT_MASTER_KEY is malformed: want at least 32 bytes"},
		{"SVC_VAULT_MASTER_KEY", newerKey + ",marker-of-one-too-short", "SVC_VAULT_MASTER_KEY is malformed: want at least 32 bytes"},
		{"SVC_VAULT_MASTER_KEY", "marker-of-one-too-short" + strings.Repeat(" ", 32), "SVC_VAULT_MASTER_KEY: key 1 is shorter than 32 bytes"},
		{"SVC_VAULT_MASTER_KEY", ",", "SVC_VAULT_MASTER_KEY holds no key"},
		{"SVC_OAUTH_KIND", "gitlab", "SVC_OAUTH_KIND is malformed"},
		{"SVC_OAUTH_URL", "nowhere", "SVC_OAUTH_URL is malformed"},
		{"SVC_OAUTH_API_URL", "nowhere", "SVC_OAUTH_API_URL is malformed"},
		{"SVC_ENGINE_URL", "ftp://127.0.0.1", "SVC_ENGINE_URL is malformed: want http:// or https://"},
		{"AUTH_URL", "ftp://127.0.0.1", "AUTH_URL is malformed: want http:// or https://"},
		{"SVC_OAUTH_URL", "ftp://127.0.0.1", "SVC_OAUTH_URL is malformed: want http:// or https://"},
		{"SVC_OAUTH_API_URL", "ftp://127.0.0.1", "SVC_OAUTH_API_URL is malformed: want http:// or https://"},
		{"SVC_DATABASE_DIRECT_URL", "http://127.0.0.1/svc", "SVC_DATABASE_DIRECT_URL is malformed: want postgres:// or postgresql://"},
		{"SVC_OAUTH_CLIENT_SECRET", "", "SVC_OAUTH_CLIENT_SECRET is missing"},
		{"SVC_DEV_SIGN_IN", "perhaps", "SVC_DEV_SIGN_IN is malformed"},
		{"SVC_BUS_URL", "nats://svc:" + busPassword, "SVC_BUS_URL is malformed"},
		{"SVC_BUS_URL", "redis://svc:" + busPassword + "@127.0.0.1", "SVC_BUS_URL is malformed: want nats:// or tls://"},
		{"SVC_BUS_URL", "nats://a:1,kafka://svc:" + busPassword + "@b:2", "SVC_BUS_URL is malformed: want nats:// or tls://"},
		{"SVC_RATE_LIMIT", "-1", "SVC_RATE_LIMIT is malformed"},
		{"SVC_INTEGRITY_INTERVAL", "soon", "SVC_INTEGRITY_INTERVAL is malformed"},
		{"SVC_DAILY_WORKSPACES", "many", "SVC_DAILY_WORKSPACES is malformed"},
		{"SVC_DAILY_INVITATIONS", "-1", "SVC_DAILY_INVITATIONS is malformed"},
		{"SVC_TRUSTED_PROXIES", "10.0.0.0/33", "SVC_TRUSTED_PROXIES is malformed: want networks such as 10.0.0.0/8,192.0.2.7"},
		{"SVC_TRUSTED_PROXIES", "10.0.0.0/8 192.0.2.7", "SVC_TRUSTED_PROXIES is malformed: want networks such as 10.0.0.0/8,192.0.2.7"},
		{"SVC_FARM_PUBLIC_URL", "http://farm.example", "SVC_FARM_PUBLIC_URL is malformed: want https://"},
		{"SVC_FARM_CLIENT_CERT_HEADER", "Authorization", "SVC_FARM_CLIENT_CERT_HEADER is malformed: want a header's name"},
		{"SVC_FARM_TRUSTED_PROXIES", "gateway", "SVC_FARM_TRUSTED_PROXIES is malformed"},
		{"SVC_ARTIFACT_STORE", "/nowhere/at/all", "SVC_ARTIFACT_STORE: open artifact store"},
		{"SVC_ARTIFACT_MAX_JOB_BYTES", "much", "SVC_ARTIFACT_MAX_JOB_BYTES is malformed: want a whole number"},
		{"SVC_LOG_LEVEL", "loud", "SVC_LOG_LEVEL is malformed"},
		{"SVC_REST_ADDR", "nowhere", "SVC_REST_ADDR is malformed"},
	} {
		require.Contains(t, fails(t, nil, c.variable+"="+c.value), c.want, c.value)
	}
	all := fails(t, nil, "SVC_DATABASE_URL=", "AUTH_SECRET=", "SVC_VAULT_MASTER_KEY=")
	require.Contains(t, all, "SVC_DATABASE_URL is missing; AUTH_SECRET is missing; SVC_VAULT_MASTER_KEY is missing", "all at once")
}
