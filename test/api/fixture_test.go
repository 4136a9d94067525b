package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"svc/events/bus"
	"svc/projections"
	"svc/proof"
	"svc/test/pgtest"
)

const (
	authSecret   = "the-secret-that-signs-the-cookies-of-tests"
	engineSecret = "the-secret-that-both-services-share"
	vaultKey     = "the-key-that-seals-what-the-vault-holds"
	oauthSecret  = "the-secret-that-the-code-host-expects"
	password     = "demonstration" // of every person in the demonstration data
)

// A fixture is what the parts of TestAPI share: programs, the seeded database and its credentials.
type fixture struct {
	folder   string
	admin    *pgxpool.Pool     // creates databases
	seeded   *url.URL          // the template of clones, so it allows no connections
	engine   string            // host:port
	codehost string            // host:port
	pooler   string            // host:port of PgBouncer; empty if services connect directly
	people   map[string]string // email addresses by first name
	sessions map[string]string // cookie values by first name
	tokens   map[string]string // by name of the service account
	names    map[string]string // names by id of the seeded database, such as "member vera@acme"

	mu        sync.Mutex
	processes []*process
	clones    map[string]string // transaction id after which each clone was made, by connection string
	secrets   map[string]string // descriptions by secret, which must not be stored or printed
}

func newFixture(t *testing.T) *fixture { return newFixtureOn(t, pgtest.Empty(t), pgtest.Empty(t)) }

// newFixtureOn returns a fixture on a server. admin and empty are connection strings: of a database from
// which databases are created, and of an empty one to be seeded.
func newFixtureOn(t *testing.T, admin, empty string) *fixture {
	s := &fixture{
		folder: t.TempDir(), people: map[string]string{}, sessions: map[string]string{}, tokens: map[string]string{}, names: map[string]string{},
		clones: map[string]string{},
		secrets: map[string]string{authSecret: "AUTH_SECRET", engineSecret: "SVC_ENGINE_SHARED_SECRET", vaultKey: "SVC_VAULT_MASTER_KEY",
			oauthSecret: "SVC_OAUTH_CLIENT_SECRET"},
	}
	s.build(t)
	s.packRelease(t)
	s.admin = connectPool(t, admin)
	seeded, err := url.Parse(empty)
	require.NoError(t, err)
	s.seeded = seeded
	s.seed(t)
	s.cheapenPasswordHashes(t)
	s.engine = s.startEngine(t).address(t)
	s.codehost = s.startCodehost(t).address(t)
	s.signInEverybody(t)
	s.loadNames(t)
	_, err = s.admin.Exec(t.Context(), fmt.Sprintf("alter database %s with allow_connections false", s.quotedName(s.seeded)))
	require.NoError(t, err)
	return s
}

// build compiles the programs, the services with the race detector if the tests run under it.
func (s *fixture) build(t *testing.T) {
	s.goBuild(t, "svc/cmd/svc-db") // has no concurrency
	services := []string{"svc/cmd/svc-engine", "svc/cmd/svc-rest", "svc/cmd/svc-codehost"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		services = append([]string{"-race"}, services...)
	}
	s.goBuild(t, services...)
}

func (s *fixture) goBuild(t *testing.T, args ...string) {
	args = append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", s.folder}, args...)
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func (s *fixture) program(name string) string { return filepath.Join(s.folder, name) }

// seed writes the demonstration data, and reads its people and tokens.
func (s *fixture) seed(t *testing.T) {
	cfg, err := pgx.ParseConfig(s.seeded.String())
	require.NoError(t, err)
	if cfg.Password != "" {
		s.secrets[cfg.Password] = "the database's password"
	}
	file := filepath.Join(s.folder, "demo.json")
	db := s.start(t, "svc-db", []string{
		"SVC_DB_HOST=" + cfg.Host, fmt.Sprintf("SVC_DB_PORT=%d", cfg.Port), "SVC_DB_NAME=" + cfg.Database,
		"SVC_DB_USER=" + cfg.User, "SVC_DB_PASSWORD=" + cmp.Or(cfg.Password, "any"),
		"SVC_VAULT_MASTER_KEY=" + vaultKey,
	}, "-seed=development", "-seed-file="+file)
	status, report := db.waitForExit(t)
	require.Zero(t, status, report)

	var demo struct {
		People          []struct{ Email string }
		ServiceAccounts []struct{ Name, Token string }
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &demo))
	for _, p := range demo.People {
		firstName, _, _ := strings.Cut(p.Email, "@")
		s.people[firstName] = p.Email
	}
	for _, a := range demo.ServiceAccounts {
		s.tokens[a.Name] = a.Token
		s.secrets[a.Token] = "the token of " + a.Name
	}
}

// cheapenPasswordHashes stores the same passwords at bcrypt's lowest cost. Under the race detector a
// comparison at the default cost takes most of a second.
func (s *fixture) cheapenPasswordHashes(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	db, err := pgx.Connect(t.Context(), s.seeded.String())
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	tag, err := db.Exec(t.Context(), `update passwords set hash = $1`, string(hash))
	require.NoError(t, err)
	require.EqualValues(t, len(s.people), tag.RowsAffected())
}

func (s *fixture) engineEnviron(address string) []string {
	return []string{"SVC_ENGINE_ADDR=" + address, "SVC_ENGINE_SHARED_SECRET=" + engineSecret, "PATH=" + os.Getenv("PATH")} // of git
}

func (s *fixture) startEngine(t *testing.T) *process {
	return s.start(t, "svc-engine", s.engineEnviron("127.0.0.1:0"))
}

// startCodehost starts the code host for sign-in. Nothing listens at its callback address: tests read
// the redirect and send the callback themselves.
func (s *fixture) startCodehost(t *testing.T) *process {
	return s.start(t, "svc-codehost", []string{
		"SVC_CODEHOST_ADDR=127.0.0.1:0", "SVC_CODEHOST_CLIENT_ID=svc", "SVC_CODEHOST_CLIENT_SECRET=" + oauthSecret,
		"SVC_CODEHOST_CALLBACK=http://localhost:4000/api/auth/callback/github",
	})
}

// signInEverybody signs everybody in and waits until the views have folded the seeded events, so that
// clones contain both.
func (s *fixture) signInEverybody(t *testing.T) {
	v := s.serve(t, s.seeded.String())
	for firstName := range s.people {
		s.sessions[firstName] = v.signIn(t, firstName)
	}
	db, err := pgx.Connect(t.Context(), s.seeded.String())
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	eventually(t, func() bool {
		var behind int
		err := db.QueryRow(t.Context(), `
			select count(*) from logs l cross join unnest($1::text[]) v (view)
			left join checkpoints c on c.workspace_id = l.workspace_id and c.view = v.view
			where c.seq is distinct from l.head`, checkpointedViews).Scan(&behind)
		return err == nil && behind == 0
	}, "the views do not catch up")
	v.client.CloseIdleConnections()
	v.stop(t) // a template must have no connections
}

// checkpointedViews are the names under which table checkpoints has a position in each log.
var checkpointedViews = func() []string {
	names := []string{proof.FollowerName, bus.FollowerName}
	for _, v := range projections.Followed() {
		names = append(names, v.Name())
	}
	return names
}()

func (s *fixture) trackProcess(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = append(s.processes, p)
}

// addSecret registers a secret that output and databases must not contain, with a description.
func (s *fixture) addSecret(secret, description string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[secret] = description
}
