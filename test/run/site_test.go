//go:build linux

package run

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

// A site is a data folder, and how svc is run on it.
type site struct {
	t       *testing.T
	home    string // holds all that the test writes
	data    string
	user    *syscall.Credential // nil is who runs the test
	environ []string
}

// newSite is a site on which svc has never been.
func newSite(t *testing.T) *site {
	t.Helper()
	home, err := os.MkdirTemp(shared, "site-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(home, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(home)) })
	s := &site{t: t, home: home, data: filepath.Join(home, "its data")} // with a space, which some folders have
	s.environ = environOf(s.data)
	return s
}

// environOf has svc keep to a folder, and listen where nobody else does.
func environOf(data string) []string {
	list := append(inherited(), "SVC_DATA_DIR="+data)
	for _, name := range []string{"REST", "ENGINE", "CODEHOST", "METRICS", "GATEWAY", "UI"} {
		list = append(list, "SVC_"+name+"_ADDR=127.0.0.1:0")
	}
	return list
}

// inherited is our environment without what would tell the service anything.
func inherited() (list []string) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		ours := strings.HasPrefix(name, "SVC_") && name != "SVC_PG_BINDIR" || strings.HasPrefix(name, "AUTH_")
		if !ours && !strings.HasPrefix(name, "PG") && name != "GORACE" {
			list = append(list, variable)
		}
	}
	return list
}

var seeding struct {
	sync.Mutex
	data string
}

// seededSite is a site on which svc has been before.
func seededSite(t *testing.T) *site {
	t.Helper()
	data := seeded(t)
	s := newSite(t)
	out, err := exec.Command("cp", "-a", data, s.data).CombinedOutput()
	require.NoError(t, err, string(out))
	return s
}

// seeded is a data folder to copy.
func seeded(t *testing.T) string {
	t.Helper()
	seeding.Lock()
	defer seeding.Unlock()
	if seeding.data == "" {
		s := &site{t: t, home: shared, data: filepath.Join(shared, "seeded")}
		s.environ = environOf(s.data)
		svc := s.start().until(running)
		cheap, err := bcrypt.GenerateFromPassword([]byte(s.dev().owner(t).Password), bcrypt.MinCost) // the race detector makes sign-ins slow
		require.NoError(t, err)
		c := s.connect("svc")
		_, err = c.Exec(t.Context(), `update passwords set hash = $1`, string(cheap))
		require.NoError(t, err)
		code, text := svc.ctrlC()
		require.Zero(t, code, text)
		seeding.data = s.data
	}
	return seeding.data
}

// running is what svc says when everything runs.
const running = "The service runs. Ctrl-C stops it.\n"

// start starts svc, with more of an environment.
func (s *site) start(environ ...string) *process {
	s.t.Helper()
	return start(s.t, s.user, append(s.environ[:len(s.environ):len(s.environ)], environ...), "svc")
}

// stop is a Ctrl-C that leaves nothing behind.
func (s *site) stop(p *process) string {
	s.t.Helper()
	there := family(p.pid())
	code, text := p.ctrlC()
	require.Zero(s.t, code, text)
	requireGone(s.t, there, s.data)
	return text
}

func (s *site) file(name string) string { return filepath.Join(s.data, name) }

// secrets are those of secrets.json, by name.
func (s *site) secrets() map[string]string {
	s.t.Helper()
	text, err := os.ReadFile(s.file("secrets.json"))
	require.NoError(s.t, err)
	secrets := map[string]string{}
	require.NoError(s.t, json.Unmarshal(text, &secrets))
	for _, name := range []string{"engineSharedSecret", "authSecret", "vaultMasterKey", "oauthClientSecret"} {
		require.GreaterOrEqual(s.t, len(secrets[name]), 32, name)
	}
	return secrets
}

// dev is dev.json, of which nothing may be missing and to which nothing may
// be added.
type dev struct {
	RestURL         string    `json:"restUrl"`
	MetricsURL      string    `json:"metricsUrl"`
	AppURL          string    `json:"appUrl"`
	FarmURL         string    `json:"farmUrl"`
	FarmCAFile      string    `json:"farmCaFile"`
	FarmReleasesDir string    `json:"farmReleasesDir"`
	EngineURL       string    `json:"engineUrl"`
	DatabaseURL     string    `json:"databaseUrl"`
	People          []person  `json:"people"`
	ServiceAccounts []account `json:"serviceAccounts"`
}

type person struct {
	Name          string `json:"name"`
	Email         string `json:"email"`
	Password      string `json:"password"`
	Role          string `json:"role"`
	WorkspaceID   string `json:"workspaceId"`
	WorkspaceSlug string `json:"workspaceSlug"`
}

type account struct {
	Name          string   `json:"name"`
	Token         string   `json:"token"`
	Scopes        []string `json:"scopes"`
	WorkspaceID   string   `json:"workspaceId"`
	WorkspaceSlug string   `json:"workspaceSlug"`
}

// dev reads dev.json.
func (s *site) dev() dev {
	s.t.Helper()
	text, err := os.ReadFile(s.file("dev.json"))
	require.NoError(s.t, err)
	var d dev
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	require.NoError(s.t, in.Decode(&d))
	again, err := json.Marshal(d)
	require.NoError(s.t, err)
	require.JSONEq(s.t, string(again), string(text), "a field is missing")
	return d
}

// account returns the service account of a name.
func (d dev) account(t *testing.T, name string) account {
	t.Helper()
	for _, a := range d.ServiceAccounts {
		if a.Name == name {
			return a
		}
	}
	require.FailNow(t, "no service account "+name)
	return account{}
}

// owner returns somebody who owns the workspace acme.
func (d dev) owner(t *testing.T) person {
	t.Helper()
	for _, p := range d.People {
		if p.Role == "Owner" && p.WorkspaceSlug == "acme" {
			return p
		}
	}
	require.FailNow(t, "nobody owns acme")
	return person{}
}

// connect connects to a database of the site's private PostgreSQL, which the
// files in its folder lead to.
func (s *site) connect(database string) *pgx.Conn {
	s.t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(s.file("postgres/" + name))
		require.NoError(s.t, err)
		return strings.TrimSpace(string(text))
	}
	c, err := pgx.Connect(s.t.Context(), "postgres://svc:"+read("password")+"@"+read("address")+"/"+database+"?sslmode=disable")
	require.NoError(s.t, err)
	s.t.Cleanup(func() { c.Close(context.Background()) })
	return c
}
