package farm_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"svc/commands"
	"svc/commands/bearer"
	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/http/farm"
	"svc/http/openapi"
	"svc/projections"
	"svc/projections/farmviews"
	"svc/test/pgtest"
	"svc/test/world"
	"svc/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var epoch = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const (
	header  = "X-Svc-Client-Cert"
	gateway = "10.0.0.7:4711" // a trusted peer
)

// A clock is what replicas use as time. Only the test moves it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// A site is a database, two replicas, and a workspace with an Owner.
type site struct {
	db        *pgxpool.Pool
	clock     *clock
	a, b      *replica
	workspace events.ID
	owner     commands.Meta
	logged    *bytes.Buffer
}

type replica struct {
	http.Handler
	server   *farm.Server
	commands *commands.Handler
	log      *store.Store
}

func newSite(t *testing.T, change ...func(*farm.Config)) *site {
	t.Helper()
	address := pgtest.URL(t)
	s := &site{db: connect(t, address), clock: &clock{at: epoch}, logged: &bytes.Buffer{}}
	s.a, s.b = s.newReplica(t, address, change), s.newReplica(t, address, change)
	s.workspace, s.owner = s.newWorkspace(t, "acme")
	return s
}

func connect(t *testing.T, address string) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.New(context.WithoutCancel(t.Context()), address)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

func (s *site) newReplica(t *testing.T, address string, change []func(*farm.Config)) *replica {
	t.Helper()
	db := connect(t, address)
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	ring, err := vault.NewRing([]config.Secret{"the-key-that-the-database-does-not-have"})
	require.NoError(t, err)
	h := commands.New(log, s.clock.now)
	h.Views = world.Views(db, func() int64 { return 1 })
	c := farm.Config{
		Enabled: true, Commands: h, Runners: farmviews.Runners{DB: db}, Secrets: vault.Secrets{DB: db, Ring: ring},
		PublicURL: &url.URL{Scheme: "https", Host: "farm.example:4443"}, Header: header,
		TrustedProxy:        func(peer netip.Addr) bool { return peer == netip.MustParseAddr("10.0.0.7") },
		ArtifactMaxJobBytes: 1 << 20, ReleaseKeys: func() []string { return []string{"ed25519:AAAA"} },
		Now: s.clock.now, Log: slog.New(slog.NewTextHandler(s.logged, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	for _, f := range change {
		f(&c)
	}
	server := farm.New(c)
	api := openapi.New(openapi.Config{Title: "farm", Version: "1", Describe: func(*huma.OpenAPI) {}, ExampleID: "x", Log: c.Log})
	for _, m := range server.Operations() {
		api.Add(m.Operation, m.Handler)
	}
	return &replica{api, server, h, log}
}

func (s *site) newWorkspace(t *testing.T, slug string) (events.ID, commands.Meta) {
	t.Helper()
	user, workspace := events.NewID(epoch), events.NewID(epoch)
	owner := commands.Meta{Workspace: workspace, Envelope: events.Envelope{
		Actor: events.Actor{Type: events.ByUser, ID: user, Name: "ada@" + slug + ".example"}, Origin: events.FromAPI,
	}}
	_, err := s.a.commands.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta: owner, Name: slug, Slug: slug, Member: events.NewID(epoch), Email: owner.Actor.Name, Person: "Ada",
	})
	require.NoError(t, err)
	return workspace, owner
}

// mint creates an enrollment that is valid for 15 minutes.
func (s *site) mint(t *testing.T, by commands.Meta, change ...func(*commands.MintEnrollment)) bearer.EnrollmentToken {
	t.Helper()
	authority, err := s.a.server.Authority(t.Context(), by.Workspace)
	require.NoError(t, err)
	c := commands.MintEnrollment{
		Meta: by, Enrollment: events.NewID(s.clock.now()), Token: bearer.NewEnrollmentToken(), Authority: authority,
		Name: "builder-1", Labels: []string{"pool=default"}, CapacityLimit: 4, Lasts: 15 * time.Minute,
	}
	for _, f := range change {
		f(&c)
	}
	_, err = s.a.commands.MintEnrollment(t.Context(), c)
	require.NoError(t, err)
	return c.Token
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func csr(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// An answer is the result of a request.
type answer struct {
	status int
	header http.Header
	body   gjson.Result
}

func (a answer) is(t *testing.T, status int, code string) answer {
	t.Helper()
	require.Equal(t, status, a.status, a.body.Raw)
	require.Equal(t, code, a.body.Get("code").String(), a.body.Raw)
	return a
}

// ask sends a request through the gateway, unless change says otherwise.
func (r *replica) ask(t *testing.T, method, path string, body any, change ...func(*http.Request)) answer {
	t.Helper()
	var text string
	if body != nil {
		encoded, err := json.Marshal(body)
		require.NoError(t, err)
		text = string(encoded)
	}
	request := httptest.NewRequestWithContext(t.Context(), method, "/api/v1/farm"+path, strings.NewReader(text))
	request.RemoteAddr = gateway
	if text != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, f := range change {
		f(request)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request)
	return answer{w.Code, w.Header(), gjson.ParseBytes(w.Body.Bytes())}
}

func shows(certificate string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(header, url.PathEscape(certificate)) }
}

func from(peer string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = peer } }

func (r *replica) register(t *testing.T, token bearer.EnrollmentToken, key crypto.Signer, change ...func(*http.Request)) answer {
	t.Helper()
	return r.ask(t, "POST", "/registrations", map[string]any{
		"token": token.Reveal(), "csr": csr(t, key), "name": "itself", "labels": []string{"disk=ssd"}, "capacity": 2,
		"agent": map[string]any{"version": "0.4.0", "os": "linux", "arch": "amd64", "protocols": []string{"svc-farm.v1"},
			"sandboxes": []string{"none"}},
	}, change...)
}

func (r *replica) self(t *testing.T, certificate string) answer {
	t.Helper()
	return r.ask(t, "GET", "/registrations/self", nil, shows(certificate))
}

func (r *replica) renew(t *testing.T, certificate string, key crypto.Signer) answer {
	t.Helper()
	return r.ask(t, "POST", "/registrations/renew", map[string]any{"csr": csr(t, key)}, shows(certificate))
}

// enrol registers a new machine and returns its certificate.
func (s *site) enrol(t *testing.T) (runner events.ID, certificate string) {
	t.Helper()
	a := s.a.register(t, s.mint(t, s.owner), newKey(t)).is(t, 201, "")
	runner, err := events.ParseID(a.body.Get("runnerId").String())
	require.NoError(t, err)
	return runner, a.body.Get("certificate").String()
}

// requireHead checks that the answer has the position of the head of the workspace's log.
func (s *site) requireHead(t *testing.T, a answer) {
	t.Helper()
	var head string
	require.NoError(t, s.db.QueryRow(t.Context(), `select head::text from logs where workspace_id = $1`, s.workspace).Scan(&head))
	require.Equal(t, head, a.header.Get("X-Svc-Position"))
}

// kinds returns the kinds of a workspace's events about the farm.
func (s *site) kinds(t *testing.T, workspace events.ID) (list []string) {
	t.Helper()
	rows, err := s.db.Query(t.Context(), `
		select kind from events where workspace_id = $1 and split_part(kind, '.', 1) in ('runner', 'enrollment', 'authority')
			order by seq`, workspace)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var kind string
		require.NoError(t, rows.Scan(&kind))
		list = append(list, kind)
	}
	require.NoError(t, rows.Err())
	return list
}
