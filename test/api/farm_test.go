package api

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/release"
)

// certificateHeader is the header in which the gateway forwards a runner's certificate.
const certificateHeader = "X-Svc-Client-Cert"

// registrationsPath is the route by which machines enrol, with a token in the body.
const registrationsPath = "/api/v1/farm/registrations"

// renewalPath is the route by which a runner gets its next certificate.
const renewalPath = registrationsPath + "/renew"

// isRunnerRoute reports whether a route is authenticated by a client certificate, or issues one.
func isRunnerRoute(method, path string) bool {
	return strings.HasPrefix(path, registrationsPath) || path == "/api/v1/farm/agent" ||
		method == "POST" && strings.HasSuffix(path, "/artifacts")
}

func (s *fixture) releasesDir() string { return filepath.Join(s.folder, "releases") }

// packRelease packs a release of the agent, without which machines cannot enrol.
func (s *fixture) packRelease(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	program := filepath.Join(s.folder, "svc-runner")
	require.NoError(t, os.WriteFile(program, []byte("the agent"), 0o755))
	require.NoError(t, release.Pack(s.releasesDir(), release.Latest{Version: "1.2.3", MinProtocol: "svc-farm.v1"},
		[]release.Build{{OS: "linux", Arch: "amd64", Path: program}}, key))
}

// mintEnrollmentToken returns the token of a new enrollment in the caller's workspace.
func (v *service) mintEnrollmentToken(t *testing.T, as string) string {
	t.Helper()
	return v.ask(t, as, "POST /api/v1/farm/enrollments", `{}`).is(t, "201").text(t, "token")
}

// registrationBody returns the request body of a machine with a new key. name is inserted without escaping.
func (v *service) registrationBody(t *testing.T, token, name string) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	csr, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})))
	require.NoError(t, err)
	return `{"token":"` + token + `","csr":` + string(csr) + `,"name":"` + name + `","agent":{"version":"0.4.0","os":"linux","arch":"amd64"}}`
}

// enrolRunner enrols a machine as a runner of the caller's workspace, and returns its id.
func (v *service) enrolRunner(t *testing.T, as string) (runner string) {
	t.Helper()
	body := v.registrationBody(t, v.mintEnrollmentToken(t, as), "builder-1")
	return v.ask(t, "nobody", "POST "+registrationsPath, body).is(t, "201").text(t, "runnerId")
}

// testFarm shows that a certificate authorizes a runner's routes and no others, and that the certificate
// header counts only when it comes from the gateway.
func testFarm(t *testing.T, s *fixture) {
	database := s.cloneDatabase(t)
	v := s.serve(t, database)
	a := v.ask(t, "nobody", "POST "+registrationsPath, v.registrationBody(t, v.mintEnrollmentToken(t, "mia@acme"), "builder-1")).is(t, "201")
	certificate := certificateHeader + ": " + url.PathEscape(a.text(t, "certificate"))
	const self = "GET " + registrationsPath + "/self"
	require.Equal(t, a.text(t, "runnerId"), v.ask(t, "nobody", self, "", certificate).is(t, "200").text(t, "runnerId"))

	t.Run("enrollment is in the audit log", func(t *testing.T) {
		var actions []string
		for _, item := range v.ask(t, "ada@acme", "GET /api/v1/audit?limit=4", "").is(t, "200").at(t, "items").([]any) {
			actions = append(actions,
				mustAt(t, item, "action").(string)+" "+mustAt(t, item, "actor", "type").(string)+" "+mustAt(t, item, "target", "type").(string))
		}
		require.Equal(t, []string{
			"runner.enrolled runner runner", "enrollment.used runner enrollment", "enrollment.minted user enrollment",
			"authority.created user authority",
		}, actions)
	})
	t.Run("a certificate is no session or token", func(t *testing.T) {
		for _, line := range []string{"GET /api/v1/runs?status=active", "GET /api/v1/workspace", "GET /api/v1/farm/runners"} {
			v.ask(t, "nobody", line, "", certificate).is(t, "401 unauthenticated")
		}
		v.ask(t, "nobody", "POST /api/v1/farm/enrollments", `{}`, certificate).is(t, "401 unauthenticated")
		v.ask(t, "vera@acme", "POST /api/v1/farm/enrollments", `{}`, certificate).is(t, "403 role_required")
	})
	t.Run("header sent twice is refused", func(t *testing.T) {
		v.ask(t, "nobody", self, "", certificate, certificate).is(t, "401 runner_certificate_required")
	})
	t.Run("header from an untrusted address is refused", func(t *testing.T) {
		other := s.serve(t, database, "SVC_FARM_TRUSTED_PROXIES=10.0.0.0/8")
		other.ask(t, "nobody", self, "", certificate, "X-Forwarded-For: 10.0.0.7").is(t, "401 runner_certificate_required")
		require.Equal(t, "gateway_not_trusted", other.ask(t, "nobody", self, "", certificate).at(t, "details.reason"))
	})
	t.Run("secrets of a job total 512 KiB at most", func(t *testing.T) {
		var names []string
		for i := range 17 {
			name := fmt.Sprintf("LARGE_%d", i)
			v.ask(t, "mia@acme", "PUT /api/v1/farm/secrets/"+name, `{"value":"`+strings.Repeat("x", 32<<10)+`"}`).is(t, "204")
			names = append(names, `"`+name+`"`)
		}
		job := func(n int) string {
			return `{"name":"large","steps":[{"run":"true"}],"secrets":[` + strings.Join(names[:n], ",") + `]}`
		}
		v.ask(t, "mia@acme", "POST /api/v1/farm/jobs", job(16)).is(t, "201")
		refused := v.ask(t, "mia@acme", "POST /api/v1/farm/jobs", job(17)).is(t, "422 validation_failed")
		require.Equal(t, []any{"must total 512 KiB or less"}, refused.at(t, "details.secrets"))
	})
	t.Run("revoked runner is refused", func(t *testing.T) {
		other := s.serve(t, database)
		other.ask(t, "nobody", self, "", certificate).is(t, "200")
		v.ask(t, "mia@acme", "POST /api/v1/farm/runners/"+a.text(t, "runnerId")+"/revoke", "").is(t, "200")
		other.ask(t, "nobody", self, "", certificate).is(t, "403 runner_revoked")
		v.ask(t, "nobody", self, "", certificate).is(t, "403 runner_revoked")
	})
	t.Run("incomplete configuration refuses enrollment", func(t *testing.T) {
		bare := s.serve(t, database, "SVC_FARM_RELEASES_DIR=", "SVC_FARM_PUBLIC_URL=")
		refused := bare.ask(t, "ada@acme", "POST /api/v1/farm/enrollments", `{}`).is(t, "409 farm_not_ready")
		require.Equal(t, map[string]any{
			"set": []any{"SVC_FARM_CLIENT_CERT_HEADER"}, "missing": []any{"SVC_FARM_PUBLIC_URL", "SVC_FARM_RELEASES_DIR"},
		}, refused.at(t, "details"))
	})
	t.Run("farm turned off", func(t *testing.T) {
		off := s.serve(t, database, "SVC_FARM_RELEASES_DIR=", "SVC_FARM_PUBLIC_URL=", "SVC_FARM_CLIENT_CERT_HEADER=", "SVC_FARM_TRUSTED_PROXIES=")
		for _, route := range off.loadSpec(t).routes() {
			line := strings.NewReplacer("{id}", noID, "{artifactId}", noID).Replace(route)
			if method, path, _ := strings.Cut(line, " "); strings.HasPrefix(path, "/api/v1/farm/") {
				off.ask(t, "ada@acme", line, "", certificate).is(t, "404 farm_off")
				if !isRunnerRoute(method, path) {
					off.ask(t, "nobody", line, "", certificate).is(t, "401 unauthenticated")
				}
			}
		}
	})
}
