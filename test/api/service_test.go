package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A service is a running svc-rest process.
type service struct {
	*process
	fixture       *fixture
	database      string // connection string
	host          string // host:port
	client        *http.Client
	expectsErrors bool // error log lines do not fail the test
}

// serve starts svc-rest on a database, with environ added to the default environment. When t ends
// it stops the process, unless t has, and requires that it exited with status 0 and logged no error.
func (s *fixture) serve(t *testing.T, database string, environ ...string) *service {
	t.Helper()
	v := &service{
		fixture: s, database: database,
		client: &http.Client{
			Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16},
		},
	}
	v.process = s.start(t, "svc-rest", append(s.environ(database), environ...))
	t.Cleanup(func() {
		v.client.CloseIdleConnections()
		select {
		case <-v.ended: // the test has stopped it
		default:
			v.stop(t)
		}
		text, _ := v.out.read()
		require.NotContains(t, text, "msg=panic")
		if !v.expectsErrors {
			require.NotContains(t, text, "level=ERROR")
		}
	})
	v.host = v.address(t)
	return v
}

func (s *fixture) environ(database string) []string {
	return []string{
		"SVC_REST_ADDR=127.0.0.1:0", "SVC_DATABASE_URL=" + s.throughPooler(withSmallPool(database)), "SVC_DATABASE_DIRECT_URL=" + database,
		"SVC_ENGINE_URL=http://" + s.engine, "SVC_ENGINE_SHARED_SECRET=" + engineSecret,
		"AUTH_URL=http://localhost:4000", "AUTH_SECRET=" + authSecret,
		"SVC_VAULT_MASTER_KEY=" + vaultKey, "SVC_OAUTH_URL=http://" + s.codehost, "SVC_OAUTH_CLIENT_ID=svc",
		"SVC_OAUTH_CLIENT_SECRET=" + oauthSecret,
		"SVC_DEV_SIGN_IN=true", "SVC_RATE_LIMIT=0", "SVC_INTEGRITY_INTERVAL=0",
		"SVC_MAX_ACTIVE_RUNS=0", // so that what is queued stays so
		"SVC_FARM_PUBLIC_URL=https://farm.example", "SVC_FARM_CLIENT_CERT_HEADER=" + certificateHeader,
		"SVC_FARM_TRUSTED_PROXIES=127.0.0.1", "SVC_FARM_RELEASES_DIR=" + s.releasesDir(),
	}
}

// throughPooler returns the connection string of a database through the pooler, or database itself if
// there is no pooler. Transaction pooling does not support prepared statements, so they are turned off.
func (s *fixture) throughPooler(database string) string {
	u, err := url.Parse(database)
	if err != nil || s.pooler == "" {
		return database
	}
	u.Host = s.pooler
	u.RawQuery += "&default_query_exec_mode=cache_describe"
	return u.String()
}

// withSmallPool limits a service's pool, so that many services do not use up the server's connections.
func withSmallPool(database string) string {
	if strings.Contains(database, "?") {
		return database + "&pool_max_conns=8"
	}
	return database + "?pool_max_conns=8"
}

// ask sends a request with the credentials of a caller; see [fixture.credentials]. line is method and
// target, such as "GET /api/v1/runs?status=active"; headers are "Name: value".
func (v *service) ask(t *testing.T, as, line, body string, headers ...string) answer {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+v.host+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header = v.fixture.credentials(t, as)
	r.Header.Set("User-Agent", "test")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header[http.CanonicalHeaderKey(name)] = append(existingValues(r.Header, name), value)
	}
	res, err := v.client.Do(r)
	require.NoError(t, err, line)
	return v.readAnswer(t, line, res)
}

// existingValues returns the values that stay when a test sends a header again. It returns none
// for Content-Type and User-Agent, which are replaced.
func existingValues(h http.Header, name string) []string {
	if strings.EqualFold(name, "Content-Type") || strings.EqualFold(name, "User-Agent") {
		return nil
	}
	return h.Values(name)
}

// sendRaw sends text with \n replaced by \r\n and otherwise unchanged, and returns the answer.
func (v *service) sendRaw(t *testing.T, text string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", v.host)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
	_, _ = io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")) // the service may close early; the answer is read below
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	line, _, _ := strings.Cut(text, "\n")
	return v.readAnswer(t, line, res)
}

func (v *service) readAnswer(t *testing.T, line string, res *http.Response) answer {
	t.Helper()
	defer res.Body.Close()
	var body []byte
	var err error
	if res.Header.Get("Content-Type") == "text/event-stream" && !strings.HasPrefix(line, "HEAD ") { // the stream has no end
		body = make([]byte, len("retry: 2000"))
		_, err = io.ReadFull(res.Body, body)
	} else {
		body, err = io.ReadAll(res.Body)
	}
	require.NoError(t, err, line)
	a := answer{res.StatusCode, res.Header, string(body)}
	v.checkAnswer(t, line, a)
	return a
}

var (
	uuidPattern  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`) // RFC 9562, version 7
	tokenPattern = regexp.MustCompile(`tok_(?:svc|enr)_[0-9A-Za-z]{38}`)
	tokenRoutes  = regexp.MustCompile(`^POST /api/v1/(service-accounts(/[^/]*/rotate)?|farm/enrollments)$`)
)

// checkAnswer requires what holds for every answer: security headers, well-formed ids and errors, no
// secrets, and tokens only from the routes that create them.
func (v *service) checkAnswer(t *testing.T, line string, a answer) {
	t.Helper()
	if a.header.Get("X-Request-Id") == "" {
		require.Contains(t, []int{400, 431, 501}, a.status, line) // net/http answered a malformed request
		return
	}
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"), line)
	require.Contains(t, a.header.Get("Content-Security-Policy"), "default-src 'none'", line)
	require.NotRegexp(t, tokenPattern, fmt.Sprint(a.header), line)
	for _, secret := range []string{authSecret, engineSecret, vaultKey, oauthSecret} {
		require.NotContains(t, a.body, secret, line)
	}
	for _, token := range tokenPattern.FindAllString(a.body, -1) {
		v.fixture.addSecret(token, "a token created by a test")
		require.Regexp(t, tokenRoutes, line)
		require.Less(t, a.status, 300, line)
		require.Equal(t, "no-store", a.header.Get("Cache-Control"), line)
	}
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if cookie.Value != "" && cookie.Name != "better-auth.dont_remember" {
			v.fixture.addSecret(cookie.Value, "a session's cookie")
			token, _, _ := strings.Cut(cookie.Value, ".")
			v.fixture.addSecret(token, "a session's token")
		}
	}
	if strings.Contains(line, " /api/v1/") || strings.Contains(line, " /api/auth/") { // pages of the documentation may hold any id
		for _, id := range append(idPattern.FindAllString(a.body, -1), idPattern.FindAllString(a.header.Get("X-Request-Id"), -1)...) {
			require.Regexp(t, uuidPattern, id, "%s: not a version 7 UUID", line)
		}
	}
	if a.status >= 400 && a.body != "" && line != "GET /health/ready" {
		a.requireError(t, line)
	}
}
