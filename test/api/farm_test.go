package api

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/release"
)

// certificateHeader is where the farm's gateway would put a runner's certificate.
const certificateHeader = "X-Svc-Client-Cert"

// enrols is where machines show a token, which is in the body.
const enrols = "/api/v1/farm/registrations"

// ofMachines reports whether a route is one that a client certificate opens, or that leads
// to one.
func ofMachines(method, path string) bool {
	return strings.HasPrefix(path, enrols) || path == "/api/v1/farm/agent" || method == "POST" && strings.HasSuffix(path, "/artifacts")
}

func (s *site) releases() string { return filepath.Join(s.folder, "releases") }

// release makes a release of the agent, so that machines could be enrolled.
func (s *site) release(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	program := filepath.Join(s.folder, "svc-runner")
	require.NoError(t, os.WriteFile(program, []byte("the agent"), 0o755))
	require.NoError(t, release.Pack(s.releases(), release.Latest{Version: "1.2.3", MinProtocol: "svc-farm.v1"},
		[]release.Build{{OS: "linux", Arch: "amd64", Path: program}}, key))
}
