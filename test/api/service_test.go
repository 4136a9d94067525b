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

// A service is a running svc-rest.
type service struct {
	*process
	site     *site
	database string // its address
	host     string // host:port
	client   *http.Client
	troubled bool // what it logs as an error is expected
}

// serve starts svc-rest on a database. It must have stopped well when t ends.
func (s *site) serve(t *testing.T, database string, environ ...string) *service {
	t.Helper()
	v := &service{
		site: s, database: database,
		client: &http.Client{
			Timeout: limit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
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
		if !v.troubled {
			require.NotContains(t, text, "level=ERROR")
		}
	})
	v.host = v.address(t)
	return v
}

func (s *site) environ(database string) []string {
	return []string{
		"SVC_REST_ADDR=127.0.0.1:0", "SVC_DATABASE_URL=" + s.pooled(fewConnections(database)), "SVC_DATABASE_DIRECT_URL=" + database,
		"SVC_ENGINE_URL=http://" + s.engine, "SVC_ENGINE_SHARED_SECRET=" + engineSecret,
		"AUTH_URL=http://localhost:4000", "AUTH_SECRET=" + authSecret,
		"SVC_VAULT_MASTER_KEY=" + vaultKey, "SVC_OAUTH_URL=http://" + s.codehost, "SVC_OAUTH_CLIENT_ID=svc",
		"SVC_OAUTH_CLIENT_SECRET=" + oauthSecret,
		"SVC_DEV_SIGN_IN=true", "SVC_RATE_LIMIT=0", "SVC_INTEGRITY_INTERVAL=0",
		"SVC_FARM_PUBLIC_URL=https://farm.example", "SVC_FARM_CLIENT_CERT_HEADER=" + certificateHeader,
		"SVC_FARM_TRUSTED_PROXIES=127.0.0.1", "SVC_FARM_RELEASES_DIR=" + s.releases(),
	}
}

// pooled is the address of a database behind the pooler, if there is one, with
// what a pooler of transactions asks for: nothing is prepared in a connection.
func (s *site) pooled(database string) string {
	u, err := url.Parse(database)
	if err != nil || s.pooler == "" {
		return database
	}
	u.Host = s.pooler
	u.RawQuery += "&default_query_exec_mode=cache_describe"
	return u.String()
}

// fewConnections keeps many services from taking all that the server has.
func fewConnections(database string) string {
	if strings.Contains(database, "?") {
		return database + "&pool_max_conns=8"
	}
	return database + "?pool_max_conns=8"
}

// ask sends a request of somebody: line is "GET /api/v1/runs?status=active",
// headers are "Name: value".
func (v *service) ask(t *testing.T, as, line, body string, headers ...string) answer {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+v.host+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header = v.site.credentials(t, as)
	r.Header.Set("User-Agent", "test")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header[http.CanonicalHeaderKey(name)] = append(without(r.Header, name), value)
	}
	res, err := v.client.Do(r)
	require.NoError(t, err, line)
	return v.read(t, line, res)
}

// without returns the values of a header that a test adds to; the content type and
// the user agent it replaces.
func without(h http.Header, name string) []string {
	if strings.EqualFold(name, "Content-Type") || strings.EqualFold(name, "User-Agent") {
		return nil
	}
	return h.Values(name)
}

// raw sends text as it is, line ends apart, and returns the answer.
func (v *service) raw(t *testing.T, text string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", v.host)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(limit)))
	_, _ = io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")) // refused early: the answer counts
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	line, _, _ := strings.Cut(text, "\n")
	return v.read(t, line, res)
}

func (v *service) read(t *testing.T, line string, res *http.Response) answer {
	t.Helper()
	defer res.Body.Close()
	var body []byte
	var err error
	if res.Header.Get("Content-Type") == "text/event-stream" { // it would not end
		body = make([]byte, len("retry: 2000"))
		_, err = io.ReadFull(res.Body, body)
	} else {
		body, err = io.ReadAll(res.Body)
	}
	require.NoError(t, err, line)
	a := answer{res.StatusCode, res.Header, string(body)}
	v.judge(t, line, a)
	return a
}

var (
	uuidForm    = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`) // RFC 9562, version 7
	tokenForm   = regexp.MustCompile(`tok_(?:svc|enr)_[0-9A-Za-z]{38}`)
	showsTokens = regexp.MustCompile(`^POST /api/v1/(service-accounts(/[^/]*/rotate)?|farm/enrollments)$`)
)

// judge holds an answer against what is true of every answer.
func (v *service) judge(t *testing.T, line string, a answer) {
	t.Helper()
	if a.header.Get("X-Request-Id") == "" {
		require.Contains(t, []int{400, 431, 501}, a.status, line) // net/http's own word on what is hardly HTTP
		return
	}
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"), line)
	require.Contains(t, a.header.Get("Content-Security-Policy"), "default-src 'none'", line)
	require.NotRegexp(t, tokenForm, fmt.Sprint(a.header), line)
	for _, secret := range []string{authSecret, engineSecret, vaultKey, oauthSecret} {
		require.NotContains(t, a.body, secret, line)
	}
	for _, token := range tokenForm.FindAllString(a.body, -1) {
		v.site.keepSecret(token, "a token that was made")
		require.Regexp(t, showsTokens, line)
		require.Less(t, a.status, 300, line)
		require.Equal(t, "no-store", a.header.Get("Cache-Control"), line)
	}
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if cookie.Value != "" && cookie.Name != "better-auth.dont_remember" {
			v.site.keepSecret(cookie.Value, "a session's cookie")
			token, _, _ := strings.Cut(cookie.Value, ".")
			v.site.keepSecret(token, "a session's token")
		}
	}
	if strings.Contains(line, " /api/v1/") || strings.Contains(line, " /api/auth/") { // not the pages of others
		for _, id := range append(idForm.FindAllString(a.body, -1), idForm.FindAllString(a.header.Get("X-Request-Id"), -1)...) {
			require.Regexp(t, uuidForm, id, "%s: an id that strict clients refuse", line)
		}
	}
	if a.status >= 400 && a.body != "" && line != "GET /health/ready" {
		a.requireError(t, line)
	}
}
