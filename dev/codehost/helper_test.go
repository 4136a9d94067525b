package codehost

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/dev/codehost/oauth"
	"svc/dev/codehost/people"
	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	clientID     = "workspace"
	clientSecret = "a secret of the test"
	callback     = "http://127.0.0.1:4000/api/auth/callback/github"
	// verifier and hash are the pair of RFC 7636, appendix B.
	verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	hash     = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

var (
	ada = people.Person{ID: 1, Login: "ada", Name: "Ada Lind", Emails: []people.Email{
		{Address: "ada@home.example", Verified: true},
		{Address: "ada@acme.example", Primary: true, Verified: true},
		{Address: "boss@acme.example"},
	}}
	eve = people.Person{ID: 2, Login: "eve", Emails: []people.Email{{Address: "ada@acme.example", Primary: true}}}
	pat = people.Person{ID: 3, Login: "pat", Name: "Pat Public",
		Emails: []people.Email{{Address: "pat@open.example", Primary: true, Verified: true, Public: true}}}
)

// A site is a host under test with a browser and an application that use it.
type site struct {
	url   string
	http  *http.Client // follows no redirects
	later atomic.Int64 // by how much the clock is ahead
	logs  chan string
}

func start(t *testing.T, changes ...func(*Config)) *site {
	t.Helper()
	s := &site{logs: make(chan string, 1000)}
	begin := time.Now()
	cfg := Config{
		Clients: []oauth.Client{
			{ID: clientID, Name: "Workspace", Secret: clientSecret, Callback: callback},
			{ID: "other", Secret: "another secret", Callback: "https://other.example/in"},
		},
		People: []people.Person{ada, eve, pat},
		Now:    func() time.Time { return begin.Add(time.Duration(s.later.Load())) },
		Log:    slog.New(slog.NewTextHandler(s, nil)),
	}
	for _, change := range changes {
		change(&cfg)
	}
	handler, err := New(t.Context(), cfg)
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s.url = server.URL
	s.http = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// Write receives a line of the log.
func (s *site) Write(line []byte) (int, error) {
	s.logs <- string(line)
	return len(line), nil
}

// authorizeQuery returns the query of an authorization request with changes; a change to "-" removes a
// parameter.
func authorizeQuery(changes ...map[string]string) string {
	fields := map[string]string{
		"client_id": clientID, "redirect_uri": callback, "scope": "read:user user:email", "state": "s t&te",
		"response_type": "code", "code_challenge": hash, "code_challenge_method": "S256",
	}
	return "/login/oauth/authorize?" + form(fields, changes...).Encode()
}

func form(fields map[string]string, changes ...map[string]string) url.Values {
	values := url.Values{}
	for _, change := range changes {
		maps.Copy(fields, change)
	}
	for name, value := range fields {
		if value != "-" {
			values.Set(name, value)
		}
	}
	return values
}

// A response is a completely read answer.
type response struct {
	status int
	header http.Header
	body   string
}

func (s *site) do(t *testing.T, method, path, body string, header ...string) response {
	t.Helper()
	res, err := s.try(t.Context(), method, path, body, header...)
	require.NoError(t, err)
	return res
}

// try sends a request with pairs of header names and values.
func (s *site) try(ctx context.Context, method, path, body string, header ...string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if req.Header.Get("Host") != "" {
		req.Host = req.Header.Get("Host")
	}
	res, err := s.http.Do(req)
	if err != nil {
		return response{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return response{res.StatusCode, res.Header, string(text)}, err
}

// redirect returns the redirect of an answer, without its query, and the query.
func (a response) redirect(t *testing.T) (string, url.Values) {
	t.Helper()
	require.Equal(t, http.StatusFound, a.status, a.body)
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	u, err := url.Parse(a.header.Get("Location"))
	require.NoError(t, err)
	query := u.Query()
	u.RawQuery = ""
	return u.String(), query
}

// code has a person agree and returns the code.
func (s *site) code(t *testing.T, login string, changes ...map[string]string) string {
	t.Helper()
	_, query := s.do(t, "POST", authorizeQuery(changes...), url.Values{"login": {login}}.Encode(), "Sec-Fetch-Site", "same-origin").redirect(t)
	require.NotEmpty(t, query.Get("code"))
	return query.Get("code")
}

// exchange requests a token for a code as the product does.
func (s *site) exchange(t *testing.T, code string, changes ...map[string]string) map[string]string {
	t.Helper()
	fields := map[string]string{
		"grant_type": "authorization_code", "client_id": clientID, "client_secret": clientSecret,
		"code": code, "redirect_uri": callback, "code_verifier": verifier,
	}
	res := s.do(t, "POST", "/login/oauth/access_token", form(fields, changes...).Encode(), "Accept", "application/json")
	require.Equal(t, http.StatusOK, res.status, res.body)
	require.Equal(t, "application/json", res.header.Get("Content-Type"))
	require.Equal(t, "no-store", res.header.Get("Cache-Control"))
	out := map[string]string{}
	require.NoError(t, json.Unmarshal([]byte(res.body), &out), res.body)
	return out
}

func (s *site) token(t *testing.T, login string, changes ...map[string]string) string {
	t.Helper()
	token := s.exchange(t, s.code(t, login, changes...))["access_token"]
	require.NotEmpty(t, token)
	return token
}

// get calls the user API.
func (s *site) get(t *testing.T, path, token string) response {
	t.Helper()
	return s.do(t, "GET", path, "", "Authorization", "Bearer "+token)
}
