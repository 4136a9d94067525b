package api

import (
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

	"svc/test/pgtest"
)

const (
	authSecret   = "the-secret-that-signs-the-cookies-of-tests"
	engineSecret = "the-secret-that-both-services-share"
	password     = "demonstration" // of all demonstration people
)

// A site is what all parts of the test share.
type site struct {
	folder   string
	admin    *pgxpool.Pool     // creates databases
	seeded   *url.URL          // the database that is cloned; nothing may be connected to it
	engine   string            // address
	people   map[string]string // addresses, by first name
	sessions map[string]string // values of cookies, by first name
	tokens   map[string]string // by the names of the service accounts
	names    map[string]string // what ids of the seeded database are of: "member vera@acme"

	mu        sync.Mutex
	processes []*process
	clones    map[string]string // addresses, and the transaction after which each was made
	secrets   map[string]string // what must be kept nowhere, and what it is
}

func newSite(t *testing.T) *site {
	s := &site{
		folder: t.TempDir(), people: map[string]string{}, sessions: map[string]string{}, tokens: map[string]string{}, names: map[string]string{}, clones: map[string]string{},
		secrets: map[string]string{authSecret: "AUTH_SECRET", engineSecret: "SVC_ENGINE_SHARED_SECRET"},
	}
	s.build(t)
	s.admin = pool(t, pgtest.Empty(t))
	seeded, err := url.Parse(pgtest.Empty(t))
	require.NoError(t, err)
	s.seeded = seeded
	s.seed(t)
	s.engine = s.startEngine(t).address(t)
	t.Run("sign in", s.signIn)
	s.learnNames(t)
	_, err = s.admin.Exec(t.Context(), fmt.Sprintf("alter database %s with allow_connections false", s.quoted(s.seeded)))
	require.NoError(t, err)
	return s
}

// build makes the programs, the services with the race detector if these tests
// have it.
func (s *site) build(t *testing.T) {
	s.goBuild(t, "svc/cmd/svc-db") // does one thing after the other
	services := []string{"svc/cmd/svc-engine", "svc/cmd/svc-rest"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		services = append([]string{"-race"}, services...)
	}
	s.goBuild(t, services...)
}

func (s *site) goBuild(t *testing.T, args ...string) {
	args = append([]string{"build", "-buildvcs=false", "-o", s.folder}, args...)
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func (s *site) program(name string) string { return filepath.Join(s.folder, name) }

func pool(t *testing.T, address string) *pgxpool.Pool {
	p, err := pgxpool.New(context.Background(), address)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func (s *site) quoted(database *url.URL) string {
	return pgx.Identifier{strings.TrimPrefix(database.Path, "/")}.Sanitize()
}

// seed fills the database that is cloned.
func (s *site) seed(t *testing.T) {
	secret, _ := s.seeded.User.Password()
	if secret != "" {
		s.secrets[secret] = "the database's password"
	}
	file := filepath.Join(s.folder, "demo.json")
	db := s.start(t, "svc-db", []string{
		"SVC_DB_HOST=" + s.seeded.Hostname(), "SVC_DB_PORT=" + s.seeded.Port(), "SVC_DB_NAME=" + strings.TrimPrefix(s.seeded.Path, "/"),
		"SVC_DB_USER=" + s.seeded.User.Username(), "SVC_DB_PASSWORD=" + secret, "PGSSLMODE=" + s.seeded.Query().Get("sslmode"),
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

func (s *site) startEngine(t *testing.T) *process {
	return s.start(t, "svc-engine", []string{"SVC_ENGINE_ADDR=127.0.0.1:0", "SVC_ENGINE_SHARED_SECRET=" + engineSecret})
}

// signIn signs everybody in and lets the views take in what was seeded, so
// that clones have both.
func (s *site) signIn(t *testing.T) {
	v := s.serve(t, s.seeded.String())
	t.Run("everybody", func(t *testing.T) {
		for first := range s.people {
			t.Run(first, func(t *testing.T) {
				t.Parallel() // passwords are slow to compare
				cookie := v.signIn(t, first)
				s.mu.Lock()
				defer s.mu.Unlock()
				s.sessions[first] = cookie
			})
		}
	})
	db, err := pgx.Connect(t.Context(), s.seeded.String())
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	eventually(t, func() bool {
		var behind int
		err := db.QueryRow(t.Context(), `
			select count(*) from logs l cross join (select distinct view from checkpoints) v
			left join checkpoints c on c.workspace_id = l.workspace_id and c.view = v.view
			where c.seq is distinct from l.head`).Scan(&behind)
		return err == nil && behind == 0
	}, "the views do not catch up")
}

// learnNames reads what the ids and tails of the seeded database belong to.
func (s *site) learnNames(t *testing.T) {
	db, err := pgx.Connect(t.Context(), s.seeded.String())
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	rows, err := db.Query(t.Context(), `
		select workspace_id::text, 'workspace ' || slug from workspaces
		union all select user_id::text, 'user ' || split_part(email, '@', 1) from users
		union all select member_id::text, 'member ' || split_part(email, '@', 1) || '@' || slug from members join workspaces using (workspace_id)
		union all select account_id::text, 'account ' || name from service_accounts
		union all select '"' || tail || '"', 'tail of ' || name from service_accounts
		union all select run_id::text, 'run ' || issue_number from runs
		union all select distinct repo_id::text, 'repo ' || repo_name from runs`)
	require.NoError(t, err)
	var id, name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		s.names[id] = name
		return nil
	})
	require.NoError(t, err)
}

// id returns the id of something by its name, such as "member vera@acme".
func (s *site) id(t *testing.T, name string) string {
	t.Helper()
	for id, n := range s.names {
		if n == name {
			return id
		}
	}
	require.Fail(t, "the seeded database has no "+name)
	return ""
}

// clone makes a copy of the seeded database and returns its address.
func (s *site) clone(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	u := *s.seeded
	u.Path = fmt.Sprintf("%s_%d", u.Path, len(s.clones)+1)
	s.clones[u.String()] = ""
	s.mu.Unlock()
	_, err := s.admin.Exec(t.Context(), fmt.Sprintf("create database %s template %s strategy file_copy", s.quoted(&u), s.quoted(s.seeded)))
	require.NoError(t, err)
	var since string
	require.NoError(t, s.admin.QueryRow(t.Context(), `select pg_current_xact_id()::text`).Scan(&since))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clones[u.String()] = since
	return u.String()
}

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
