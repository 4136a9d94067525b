//go:build linux && !race

package run

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecondSvcInAFolderIsRefused(t *testing.T) {
	t.Parallel()
	s := newSeededInstallation(t)
	svc := s.start().waitForOutput(runningBanner)
	code, text := s.start().wait()
	require.Equal(t, 1, code)
	require.Equal(t, "svc        │ svc runs in "+s.data+" already, as process "+strconv.Itoa(svc.pid())+"\n", text)
	requireReady(t, s.dev().RestURL)
	s.stop(svc)
}

func TestAddressInUseNamesItsVariable(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	s := newInstallation(t)
	for _, variable := range []string{"SVC_REST_ADDR", "SVC_CODEHOST_ADDR", "SVC_ENGINE_ADDR", "SVC_METRICS_ADDR", "SVC_GATEWAY_ADDR",
		"SVC_UI_ADDR"} {
		code, text := s.start(variable + "=" + ln.Addr().String()).wait()
		require.Equal(t, 1, code)
		require.Equal(t, "svc        │ "+variable+": the address "+ln.Addr().String()+" is in use by another program\n", text)
	}
	require.NoDirExists(t, s.file("postgres"), "no data was created")
}

// Whoever can connect to the development code host can sign in as anybody.
func TestCodeHostRefusesNonLoopbackAddress(t *testing.T) {
	t.Parallel()
	s := newSeededInstallation(t)
	svc := s.start("SVC_CODEHOST_ADDR=0.0.0.0:0")
	code, text := svc.wait()
	require.Equal(t, 1, code)
	require.Regexp(t, `SVC_CODEHOST_ADDR: \S+ is not a loopback address; anybody could sign in as anybody`, text)
	require.NotContains(t, text, "starting svc-rest")
	requireGone(t, nil, s.data)
}

// TestMissingPostgresListsEverySource starts svc where no source of PostgreSQL works: the installed
// version is too old for the existing cluster, and nothing can be installed or downloaded.
func TestMissingPostgresListsEverySource(t *testing.T) {
	t.Parallel()
	s := newInstallation(t)
	empty := filepath.Join(s.home, "empty")
	require.NoError(t, os.Mkdir(empty, 0o755))
	require.NoError(t, os.MkdirAll(s.file("postgres/data"), 0o700))
	require.NoError(t, os.WriteFile(s.file("postgres/data/PG_VERSION"), []byte("999\n"), 0o600))
	nowhere := "=http://127.0.0.1:1"
	code, text := s.start("SVC_PG_BINDIR="+empty, "PATH="+empty, "HOME="+empty, "XDG_CACHE_HOME=", "TMPDIR="+empty,
		"HTTP_PROXY"+nowhere, "HTTPS_PROXY"+nowhere, "http_proxy"+nowhere, "https_proxy"+nowhere, "NO_PROXY=", "no_proxy=").wait()
	require.Equal(t, 1, code)
	require.Contains(t, text, "WARN: SVC_PG_BINDIR holds no PostgreSQL programs, other ways are tried")
	for _, way := range []string{
		"  SVC_PG_BINDIR: ", "  PATH: ", "  packages of Debian and Homebrew: ", "  download by embedded-postgres: ",
		"SVC_DATABASE_URL can name a database to use instead",
	} {
		require.Contains(t, text, "│ "+way)
	}
	require.Empty(t, processesUsing(s.data))
	left, err := filepath.Glob(filepath.Join(empty, "svc-postgres-*"))
	require.NoError(t, err)
	require.Empty(t, left, "files of the failed download")
}
