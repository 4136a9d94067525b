//go:build linux && !race

package run

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// quickStart is how long a start may take that has no data to create, on a machine that is
// busy with other tests. An idle one needs half a second.
const quickStart = time.Minute

func TestFirstStartCreatesDataAndLaterStartsKeepIt(t *testing.T) {
	t.Parallel()
	s := newInstallation(t)
	svc := s.start().waitForOutput(runningBanner)
	first := s.dev()
	runs := byToken(first.account(t, "reader").Token).expect(t, http.StatusOK, "GET", first.RestURL+"/api/v1/runs?status=active", nil)
	require.Positive(t, decode[struct{ Total int }](t, runs).Total, "the demonstration data has active runs")
	requireCompleteDevFile(t, s, first)
	for _, p := range onePerPerson(slices.Clone(first.People)) {
		requireSignsIn(t, first.RestURL, p)
	}
	for _, a := range first.ServiceAccounts {
		requireScopes(t, first.RestURL, a)
	}
	requireReady(t, first.RestURL)

	owner := signIn(t, first.RestURL, first.owner(t))
	written := createAccount(t, owner, first.RestURL, "written-before")
	text := s.stop(svc)
	require.Contains(t, text, "Migrating schema")
	requireNoSecret(t, s, text)
	requireFiles(t, s.data, "artifacts", "codehost", "demo.json", "dev.json", "engine", "gateway", "lock", "log", "postgres", "release.key",
		"releases",
		"runner", "secrets.json")

	// The next start is quick and has all data.
	began := time.Now()
	svc = s.start().waitForOutput(runningBanner)
	require.Less(t, time.Since(began), quickStart)
	next := s.dev()
	require.Equal(t, first.People, next.People)
	require.Equal(t, first.ServiceAccounts, next.ServiceAccounts)
	requireTokenReads(t, next.RestURL, written.Token)
	owner.expect(t, http.StatusOK, "GET", next.RestURL+"/api/v1/members", nil) // the session is still valid
	text = s.stop(svc)
	require.NotContains(t, text, "Migrating schema")
	require.Contains(t, text, "is up to date")

	// dev.json can be written again from other files.
	require.NoError(t, os.Remove(s.file("dev.json")))
	svc = s.start().waitForOutput(runningBanner)
	require.Equal(t, first.ServiceAccounts, s.dev().ServiceAccounts)
	s.stop(svc)

	// Without demo.json the tokens are lost: new ones are created.
	require.NoError(t, os.Remove(s.file("dev.json")))
	require.NoError(t, os.Remove(s.file("demo.json")))
	svc = s.start().waitForOutput(runningBanner)
	anew := s.dev()
	requireTokenReads(t, anew.RestURL, written.Token) // only tokens of the demonstration data are replaced
	require.ElementsMatch(t, first.People, anew.People)
	for _, old := range first.ServiceAccounts {
		fresh := anew.account(t, old.Name)
		require.Equal(t, old.Scopes, fresh.Scopes)
		requireScopes(t, anew.RestURL, fresh)
		refused := byToken(old.Token).expect(t, http.StatusUnauthorized, "GET", anew.RestURL+"/api/v1/runs?status=active", nil)
		require.Equal(t, "service_token_invalid", refused.code())
	}
	s.stop(svc)
}

// requireCompleteDevFile requires that dev.json is complete, and that its URLs work.
func requireCompleteDevFile(t *testing.T, s *installation, d devFile) {
	t.Helper()
	for _, name := range []string{"dev.json", "demo.json", "secrets.json"} {
		info, err := os.Stat(s.file(name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	info, err := os.Stat(s.data)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.Regexp(t, `^http://127\.0\.0\.1:\d+$`, d.RestURL)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+$`, d.EngineURL)
	metrics, err := http.Get(d.MetricsURL)
	require.NoError(t, err)
	require.NoError(t, metrics.Body.Close())
	require.Equal(t, http.StatusOK, metrics.StatusCode)
	app, err := http.Get(d.AppURL + "/")
	require.NoError(t, err)
	require.NoError(t, app.Body.Close())
	require.Equal(t, http.StatusOK, app.StatusCode)
	require.Equal(t, d.AppURL+"/sign-in?to=%2Fw", app.Request.URL.String(), "a visitor of the app is asked to sign in")
	requireFarmGateway(t, s, d)
	c, err := pgx.Connect(t.Context(), d.DatabaseURL)
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))

	require.NotEmpty(t, d.ServiceAccounts)
	for _, p := range d.People {
		require.NotContains(t, []string{p.Name, p.Email, p.Password, p.WorkspaceID, p.WorkspaceSlug}, "")
		require.Contains(t, []string{"Owner", "Maintainer", "Viewer", "member"}, p.Role)
	}
	for _, a := range d.ServiceAccounts {
		require.NotContains(t, []string{a.Name, a.WorkspaceID, a.WorkspaceSlug}, "")
		require.Regexp(t, `^tok_svc_[0-9A-Za-z]{38}$`, a.Token)
		require.NotEmpty(t, a.Scopes)
	}
}

// requireFarmGateway requires that the gateway serves the farm's routes and no others, and that only
// its owner can read the keys.
func requireFarmGateway(t *testing.T, s *installation, d devFile) {
	t.Helper()
	text, err := os.ReadFile(d.FarmCAFile)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for path, want := range map[string]int{
		"/install.sh": http.StatusOK, "/runner/latest.json": http.StatusOK, "/api/v1/farm/registrations/self": http.StatusUnauthorized,
		"/api/v1/runs": http.StatusNotFound, "/internal/runs": http.StatusNotFound, "/api/v1/farm/enrollments": http.StatusNotFound,
	} {
		res, err := client.Get(d.FarmURL + path)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, path)
	}
	require.FileExists(t, filepath.Join(d.FarmReleasesDir, "latest.json"))
	for _, secret := range []string{"release.key", "gateway/ca.key", "gateway/gateway.key", "runner/credentials.pem"} {
		info, err := os.Stat(s.file(secret))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), secret)
	}
}

// onePerPerson keeps one entry for each person, because sign-ins are rate-limited.
func onePerPerson(people []person) []person {
	slices.SortStableFunc(people, func(a, b person) int { return strings.Compare(a.Email, b.Email) })
	return slices.CompactFunc(people, func(a, b person) bool { return a.Email == b.Email })
}

// requireSignsIn requires that a person can sign in and has the role of dev.json in the workspace.
func requireSignsIn(t *testing.T, rest string, p person) {
	t.Helper()
	a := signIn(t, rest, p).expect(t, http.StatusOK, "GET", rest+"/api/v1/members?limit=100", nil)
	type member struct {
		Name, Email, Role string
		IsYou             bool
	}
	members := decode[struct{ Items []member }](t, a)
	require.Contains(t, members.Items, member{p.Name, p.Email, p.Role, true})
}

// requireScopes requires that a token may do what its scopes allow and no more.
func requireScopes(t *testing.T, rest string, a account) {
	t.Helper()
	url := rest + "/api/v1/runs?status=active"
	for _, scope := range a.Scopes {
		if scope == "api.read" {
			byToken(a.Token).expect(t, http.StatusOK, "GET", url, nil)
			return
		}
	}
	refused := byToken(a.Token).expect(t, http.StatusForbidden, "GET", url, nil)
	require.Equal(t, "service_scope_missing", refused.code())
}

func requireReady(t *testing.T, rest string) {
	t.Helper()
	a := caller{}.expect(t, http.StatusOK, "GET", rest+"/health/ready", nil)
	require.JSONEq(t, `{"status":"ok","info":{"database":{"status":"up"},"engine":{"status":"up"}},"error":{}}`, string(a.body))
}

// requireNoSecret requires that svc's output contains no secret, except for the password of the
// demonstration people.
func requireNoSecret(t *testing.T, s *installation, text string) {
	t.Helper()
	c, err := pgx.ParseConfig(s.dev().DatabaseURL)
	require.NoError(t, err)
	require.NotEmpty(t, c.Password)
	require.NotContains(t, text, c.Password)
	for name, secret := range s.secrets() {
		require.NotContains(t, text, secret, name)
	}
	require.NotContains(t, text, "tok_svc_")
	require.NotContains(t, text, "enr_")
	require.Contains(t, text, "[redacted]")
}

func requireFiles(t *testing.T, folder string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var there []string
	for _, e := range entries {
		there = append(there, e.Name())
	}
	require.Equal(t, names, there)
}
