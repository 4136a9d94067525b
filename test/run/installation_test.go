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

// An installation is a data folder, with the user and environment with which svc runs on it.
type installation struct {
	t       *testing.T
	home    string // contains all files that the test writes
	data    string
	user    *syscall.Credential // nil for the user of the test
	environ []string
}

// newInstallation returns an installation without data.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	home, err := os.MkdirTemp(sharedDir, "svc-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(home, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(home)) })
	s := &installation{t: t, home: home, data: filepath.Join(home, "its data")} // with a space, to test quoting
	s.environ = svcEnviron(s.data)
	return s
}

// svcEnviron returns an environment in which svc uses a data folder and listens on free ports.
func svcEnviron(data string) []string {
	list := append(cleanEnviron(), "SVC_DATA_DIR="+data, "SVC_VERBOSE=true")
	for _, name := range []string{"REST", "ENGINE", "CODEHOST", "METRICS", "GATEWAY", "UI"} {
		list = append(list, "SVC_"+name+"_ADDR=127.0.0.1:0")
	}
	return list
}

// cleanEnviron returns the environment of the test without variables that configure the service.
func cleanEnviron() (list []string) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		ours := strings.HasPrefix(name, "SVC_") && name != "SVC_PG_BINDIR" || strings.HasPrefix(name, "AUTH_")
		if !ours && !strings.HasPrefix(name, "PG") && name != "GORACE" {
			list = append(list, variable)
		}
	}
	return list
}

// seeding is the folder that seededData has created, if any.
var seeding struct {
	sync.Mutex
	data string
}

// newSeededInstallation returns an installation with the demonstration data.
func newSeededInstallation(t *testing.T) *installation {
	t.Helper()
	data := seededData(t)
	s := newInstallation(t)
	out, err := exec.Command("cp", "-a", data, s.data).CombinedOutput()
	require.NoError(t, err, string(out))
	return s
}

// seededData returns a data folder to copy. The first call creates it.
func seededData(t *testing.T) string {
	t.Helper()
	seeding.Lock()
	defer seeding.Unlock()
	if seeding.data == "" {
		s := &installation{t: t, home: sharedDir, data: filepath.Join(sharedDir, "seeded")}
		s.environ = svcEnviron(s.data)
		svc := s.start().waitForOutput(runningBanner)
		// sign-ins are too slow under the race detector at the usual cost
		cheap, err := bcrypt.GenerateFromPassword([]byte(s.dev().owner(t).Password), bcrypt.MinCost)
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

// runningBanner is printed by svc once everything runs.
const runningBanner = "The service runs. Ctrl-C stops it.\n"

// start starts svc, with additions to its environment.
func (s *installation) start(environ ...string) *process {
	s.t.Helper()
	return start(s.t, s.user, append(s.environ[:len(s.environ):len(s.environ)], environ...), "svc")
}

// stop stops svc by Ctrl-C, requires that no process is left, and returns its output.
func (s *installation) stop(p *process) string {
	s.t.Helper()
	there := processTree(p.pid())
	code, text := p.ctrlC()
	require.Zero(s.t, code, text)
	requireGone(s.t, there, s.data)
	return text
}

func (s *installation) file(name string) string { return filepath.Join(s.data, name) }

// secrets returns the content of secrets.json.
func (s *installation) secrets() map[string]string {
	s.t.Helper()
	text, err := os.ReadFile(s.file("secrets.json"))
	require.NoError(s.t, err)
	secrets := map[string]string{}
	require.NoError(s.t, json.Unmarshal(text, &secrets))
	for _, name := range []string{"engineSharedSecret", "authSecret", "vaultMasterKey", "oauthClientSecret", "codeHostToken",
		"codeHostReadToken"} {
		require.GreaterOrEqual(s.t, len(secrets[name]), 32, name)
	}
	return secrets
}

// A devFile is the content of dev.json.
type devFile struct {
	RestURL         string    `json:"restUrl"`
	MetricsURL      string    `json:"metricsUrl"`
	AppURL          string    `json:"appUrl"`
	FarmURL         string    `json:"farmUrl"`
	FarmCAFile      string    `json:"farmCaFile"`
	FarmReleasesDir string    `json:"farmReleasesDir"`
	EngineURL       string    `json:"engineUrl"`
	CodeHostURL     string    `json:"codeHostUrl"`
	DatabaseURL     string    `json:"databaseUrl"`
	People          []person  `json:"people"`
	ServiceAccounts []account `json:"serviceAccounts"`

	CodeHostToken     string `json:"codeHostToken"`
	CodeHostReadToken string `json:"codeHostReadToken"`
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

// dev reads dev.json and requires that it has exactly the fields of devFile.
func (s *installation) dev() devFile {
	s.t.Helper()
	text, err := os.ReadFile(s.file("dev.json"))
	require.NoError(s.t, err)
	var d devFile
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	require.NoError(s.t, in.Decode(&d))
	again, err := json.Marshal(d)
	require.NoError(s.t, err)
	require.JSONEq(s.t, string(again), string(text), "a field is missing")
	return d
}

// account returns the service account with a name.
func (d devFile) account(t *testing.T, name string) account {
	t.Helper()
	for _, a := range d.ServiceAccounts {
		if a.Name == name {
			return a
		}
	}
	require.FailNow(t, "no service account "+name)
	return account{}
}

// owner returns an Owner of the workspace acme.
func (d devFile) owner(t *testing.T) person {
	t.Helper()
	for _, p := range d.People {
		if p.Role == "Owner" && p.WorkspaceSlug == "acme" {
			return p
		}
	}
	require.FailNow(t, "nobody owns acme")
	return person{}
}

// connect connects to a database of the installation's own PostgreSQL.
func (s *installation) connect(database string) *pgx.Conn {
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
