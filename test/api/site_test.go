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

	"svc/test/pgtest"
)

const (
	authSecret   = "the-secret-that-signs-the-cookies-of-tests"
	engineSecret = "the-secret-that-both-services-share"
	vaultKey     = "the-key-that-seals-what-the-vault-holds"
	oauthSecret  = "the-secret-that-the-code-host-expects"
	password     = "demonstration" // of all demonstration people
)

// A site is what all parts of the test share.
type site struct {
	folder   string
	admin    *pgxpool.Pool     // creates databases
	seeded   *url.URL          // the database that is cloned; nothing may be connected to it
	engine   string            // address
	codehost string            // address
	pooler   string            // address; services reach their databases through it unless it is empty
	people   map[string]string // addresses, by first name
	sessions map[string]string // values of cookies, by first name
	tokens   map[string]string // by the names of the service accounts
	names    map[string]string // what ids of the seeded database are of: "member vera@acme"

	mu        sync.Mutex
	processes []*process
	clones    map[string]string // addresses, and the transaction after which each was made
	secrets   map[string]string // what must be kept nowhere, and what it is
}

func newSite(t *testing.T) *site { return newSiteOn(t, pgtest.Empty(t), pgtest.Empty(t)) }

// newSiteOn makes a site on a server whose administrator's database is given,
// and an empty one, which is seeded.
func newSiteOn(t *testing.T, admin, empty string) *site {
	s := &site{
		folder: t.TempDir(), people: map[string]string{}, sessions: map[string]string{}, tokens: map[string]string{}, names: map[string]string{},
		clones: map[string]string{},
		secrets: map[string]string{authSecret: "AUTH_SECRET", engineSecret: "SVC_ENGINE_SHARED_SECRET", vaultKey: "SVC_VAULT_MASTER_KEY",
			oauthSecret: "SVC_OAUTH_CLIENT_SECRET"},
	}
	s.build(t)
	s.release(t)
	s.admin = pool(t, admin)
	seeded, err := url.Parse(empty)
	require.NoError(t, err)
	s.seeded = seeded
	s.seed(t)
	s.quickenPasswords(t)
	s.engine = s.startEngine(t).address(t)
	s.codehost = s.startCodehost(t).address(t)
	s.signIn(t)
	s.learnNames(t)
	_, err = s.admin.Exec(t.Context(), fmt.Sprintf("alter database %s with allow_connections false", s.quoted(s.seeded)))
	require.NoError(t, err)
	return s
}

// build makes the programs, the services with the race detector if these tests
// have it.
func (s *site) build(t *testing.T) {
	s.goBuild(t, "svc/cmd/svc-db") // does one thing after the other
	services := []string{"svc/cmd/svc-engine", "svc/cmd/svc-rest", "svc/cmd/svc-codehost"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		services = append([]string{"-race"}, services...)
	}
	s.goBuild(t, services...)
}

func (s *site) goBuild(t *testing.T, args ...string) {
	args = append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", s.folder}, args...)
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func (s *site) program(name string) string { return filepath.Join(s.folder, name) }

// seed fills the database that is cloned.
func (s *site) seed(t *testing.T) {
	cfg, err := pgx.ParseConfig(s.seeded.String())
	require.NoError(t, err)
	if cfg.Password != "" {
		s.secrets[cfg.Password] = "the database's password"
	}
	file := filepath.Join(s.folder, "demo.json")
	db := s.start(t, "svc-db", []string{
		"SVC_DB_HOST=" + cfg.Host, fmt.Sprintf("SVC_DB_PORT=%d", cfg.Port), "SVC_DB_NAME=" + cfg.Database,
		"SVC_DB_USER=" + cfg.User, "SVC_DB_PASSWORD=" + cmp.Or(cfg.Password, "any"),
	}, "-seed=development", "-seed-file="+file)
	status, report := db.wait(t)
	require.Zero(t, status, report)

	var demo struct {
		People          []struct{ Email string }
		ServiceAccounts []struct{ Name, Token string }
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &demo))
	for _, p := range demo.People {
		first, _, _ := strings.Cut(p.Email, "@")
		s.people[first] = p.Email
	}
	for _, a := range demo.ServiceAccounts {
		s.tokens[a.Name] = a.Token
		s.secrets[a.Token] = "the token of " + a.Name
	}
}

// quickenPasswords stores the same passwords so that they are compared in no
// time: with the race detector it takes most of a second otherwise.
func (s *site) quickenPasswords(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	db, err := pgx.Connect(t.Context(), s.seeded.String())
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	tag, err := db.Exec(t.Context(), `update passwords set hash = $1`, string(hash))
	require.NoError(t, err)
	require.EqualValues(t, len(s.people), tag.RowsAffected())
}

func (s *site) startEngine(t *testing.T) *process {
	return s.start(t, "svc-engine", []string{"SVC_ENGINE_ADDR=127.0.0.1:0", "SVC_ENGINE_SHARED_SECRET=" + engineSecret})
}

// startCodehost starts the host by which people sign in. Where it leads them
// back to is nowhere: a test takes it from there.
func (s *site) startCodehost(t *testing.T) *process {
	return s.start(t, "svc-codehost", []string{
		"SVC_CODEHOST_ADDR=127.0.0.1:0", "SVC_CODEHOST_CLIENT_ID=svc", "SVC_CODEHOST_CLIENT_SECRET=" + oauthSecret,
		"SVC_CODEHOST_CALLBACK=http://localhost:4000/api/auth/callback/github",
	})
}

// signIn signs everybody in and lets the views take in what was seeded, so
// that clones have both.
func (s *site) signIn(t *testing.T) {
	v := s.serve(t, s.seeded.String())
	for first := range s.people {
		s.sessions[first] = v.signIn(t, first)
	}
	db, err := pgx.Connect(t.Context(), s.seeded.String())
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	eventually(t, func() bool {
		var behind int
		err := db.QueryRow(t.Context(), `
			select count(*) from logs l cross join unnest($1::text[]) v (view)
			left join checkpoints c on c.workspace_id = l.workspace_id and c.view = v.view
			where c.seq is distinct from l.head`, followed).Scan(&behind)
		return err == nil && behind == 0
	}, "the views do not catch up")
	v.client.CloseIdleConnections()
	v.stop(t) // nobody may be connected to what is cloned
}

// followed are what keeps a position in each log.
var followed = []string{"audit", "bus", "decisions", "outcomes", "proof", "run_counts", "runs"}

func (s *site) watch(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = append(s.processes, p)
}

// keepSecret says what must never be seen again.
func (s *site) keepSecret(secret, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[secret] = what
}
