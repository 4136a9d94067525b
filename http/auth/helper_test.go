package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"svc/commands"
	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/http/auth"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/projections"
	"svc/sessions"
	"svc/test/pgtest"
	"svc/test/world"
	"svc/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	email    = "zoe@acme.example"
	password = "correct horse"
)

// A site is a server of /api/auth with one registered person.
type site struct {
	t      *testing.T
	url    string
	config *auth.Config
	log    *journal

	mu        sync.Mutex
	clock     time.Time // fixed until advanced
	responses []string  // everything answered except cookies
	person    events.ID
	home      events.ID // their personal workspace
}

// newSite starts a site. change may modify its Config first.
func newSite(t *testing.T, change ...func(*auth.Config)) *site {
	t.Helper()
	db := pgtest.New(t)
	s := &site{t: t, log: &journal{}, clock: time.Now()}
	log := slog.New(middleware.Logger{Handler: slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})})
	events := store.New(db, append(projections.Inline(), sessions.Endings{}), func(events.ID, int64) {})
	t.Cleanup(events.Close)
	ring, err := vault.NewRing([]config.Secret{"a master key of thirty-two bytes."})
	require.NoError(t, err)
	h := commands.New(events, s.now)
	h.Views = world.Views(db, nil)
	s.config = &auth.Config{
		Commands: h, Users: projections.Users{DB: db}, Accounts: projections.Accounts{DB: db},
		Workspaces: projections.Workspaces{DB: db}, Members: projections.Members{DB: db}, Invitations: projections.Invitations{DB: db},
		Keys:      events,
		Sessions:  &sessions.Store{DB: db, Secret: []byte("a secret of thirty-two characters"), Now: s.now, Log: log},
		States:    sessions.States{DB: db, Now: s.now},
		Passwords: sessions.Passwords{DB: db}, Tokens: vault.Tokens{DB: db, Ring: ring}, DevSignIn: true, Now: s.now, Log: log,
	}
	server := httptest.NewUnstartedServer(nil)
	s.url = "http://" + server.Listener.Addr().String()
	s.config.Origin = s.url
	for _, c := range change {
		c(s.config)
	}
	s.register()
	server.Config.Handler = middleware.Forwarded(netip.Addr.IsLoopback, middleware.Traced(log, auth.New(*s.config).Handler()))
	server.Start()
	t.Cleanup(server.Close)
	return s
}

func (s *site) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

func (s *site) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

// register registers the person, with a cheap password hash.
func (s *site) register() {
	s.t.Helper()
	db := s.config.Sessions.DB
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	s.person, s.home = events.NewID(time.Now()), events.NewID(time.Now())
	_, err := s.config.Commands.RegisterUser(ctx, commands.RegisterUser{
		Meta: commands.Meta{Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: s.person, Name: email},
			Origin: events.FromAuth}, Workspace: s.home},
		User: s.person, Member: events.NewID(time.Now()), Name: "Zoë Brandt", Emails: []string{email},
		WorkspaceName: "Zoë's workspace", WorkspaceSlug: "zoe",
	})
	require.NoError(s.t, err)
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(s.t, err)
	_, err = db.Exec(ctx, `insert into passwords (user_id, hash) values ($1, $2)`, s.person, string(hash))
	require.NoError(s.t, err)
}

// A call is a request to /api/auth. Without a body it is a GET.
type call struct {
	method string
	path   string
	media  string // application/json unless said otherwise
	body   string
	cookie *http.Cookie
	header map[string]string
}

// An answer is a response whose body has been read.
type answer struct {
	*http.Response
	t    *testing.T
	text string
}

func (s *site) do(c call) answer {
	s.t.Helper()
	return s.ask(http.DefaultClient, c)
}

func (s *site) ask(client *http.Client, c call) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if c.method == "" {
		c.method = http.MethodGet
		if c.body != "" {
			c.method = http.MethodPost
		}
	}
	r, err := http.NewRequestWithContext(ctx, c.method, s.url+"/api/auth"+c.path, strings.NewReader(c.body))
	require.NoError(s.t, err)
	r.Header.Set("User-Agent", "Firefox")
	if c.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.media != "" {
		r.Header.Set("Content-Type", c.media)
	}
	if c.cookie != nil {
		r.AddCookie(&http.Cookie{Name: c.cookie.Name, Value: c.cookie.Value})
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	w, err := client.Do(r)
	require.NoError(s.t, err)
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	require.NoError(s.t, err)
	s.recordResponse(w, text)
	return answer{w, s.t, string(text)}
}

func (s *site) recordResponse(w *http.Response, text []byte) {
	var heard bytes.Buffer
	others := w.Header.Clone()
	others.Del("Set-Cookie")
	require.NoError(s.t, others.Write(&heard))
	heard.Write(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.responses = append(s.responses, heard.String())
}

// signIn signs in by password and returns the session cookie.
func (s *site) signIn() *http.Cookie {
	s.t.Helper()
	a := s.do(call{path: "/sign-in/email", body: signInBody(email, password)})
	require.Equal(s.t, http.StatusOK, a.StatusCode, a.text)
	return a.cookie()
}

func signInBody(email, password string) string {
	text, err := json.Marshal(map[string]string{"email": email, "password": password})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// session returns the answer of get-session for a cookie, nil for null.
func (s *site) session(c *http.Cookie) map[string]map[string]any {
	s.t.Helper()
	a := s.do(call{path: "/get-session", cookie: c})
	require.Equal(s.t, http.StatusOK, a.StatusCode, a.text)
	var body map[string]map[string]any
	require.NoError(s.t, json.Unmarshal([]byte(a.text), &body))
	return body
}

// cookie returns the only cookie that an answer sets.
func (a answer) cookie() *http.Cookie {
	a.t.Helper()
	require.Len(a.t, a.Cookies(), 1)
	return a.Cookies()[0]
}

// requireRefused checks that an answer is an error and sets no cookies.
func (a answer) requireRefused(status int, code string) {
	a.t.Helper()
	var body map[string]any
	require.NoError(a.t, json.Unmarshal([]byte(a.text), &body), a.text)
	require.Equal(a.t, status, a.StatusCode, a.text)
	require.Equal(a.t, code, body["code"])
	require.NotEmpty(a.t, body["message"])
	require.IsType(a.t, map[string]any{}, body["details"])
	require.Len(a.t, body, 3)
	require.Empty(a.t, a.Cookies())
}

func withLimit(t *testing.T, n int) func(*auth.Config) {
	l, err := limit.PerMinute(n)
	require.NoError(t, err)
	return func(s *auth.Config) { s.SignInLimit = l }
}

// A journal collects log lines.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// line returns the only line of a request with a message.
func (j *journal) line(t *testing.T, request, message string) (found map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(j.String()))
	for d.More() {
		var line map[string]any
		require.NoError(t, d.Decode(&line))
		if line["request_id"] == request && line["msg"] == message {
			require.Nil(t, found, "logged twice")
			found = line
		}
	}
	require.NotNil(t, found, "%q of %s in %s", message, request, j)
	return found
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
