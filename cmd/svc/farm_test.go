package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/release"
	"svc/test/address"
)

// farmNotes returns what happened to the runner since the last call.
func (s *site) farmNotes(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.calls + ".farm")
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
		require.NoError(t, os.Remove(s.calls+".farm"))
	}
	return strings.ReplaceAll(string(text), "\n", " ")
}

func TestMachineIsEnrolledOnceAndAgainIfNecessary(t *testing.T) {
	place := "SVC_GATEWAY_ADDR=" + address.Free(t)
	s := newSite(t, place)
	again := func(environ ...string) string {
		t.Helper()
		r := s.start(t, environ...).awaitUp()
		code, text := r.stop()
		require.Zero(t, code, text)
		require.Contains(t, text, "where the runner make-run is online")
		require.NotContains(t, text, "enr_of_the_test")
		s.requireGone(t, r)
		return s.farmNotes(t)
	}
	require.Equal(t, "enrolled run ", again())
	require.Equal(t, "run ", again(), "the enrollment is good")
	require.Equal(t, "revoked id-1 enrolled run ", again("SVC_TEST_REVOKED=1"))
	require.Equal(t, "revoked id-1 enrolled run ", again("SVC_GATEWAY_ADDR="+address.Free(t)), "the gateway is somewhere else")
	require.Equal(t, "revoked id-1 enrolled run ", again(), "and is back")
	require.NoError(t, os.RemoveAll(filepath.Join(s.data, "gateway")))
	require.Equal(t, "revoked id-1 enrolled run ", again(), "it has a certificate that the runner does not trust")

	path := filepath.Join(s.data, "runner", "identity.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte(`"notAfter":"2`), []byte(`"notAfter":"1`), 1), 0o600))
	require.Equal(t, "revoked id-1 enrolled run ", again(), "the certificate has expired")
	require.NoError(t, os.RemoveAll(filepath.Join(s.data, "runner")))
	require.Equal(t, "enrolled run ", again(), "its folder was removed")
}

func TestServiceRunsWithoutRunner(t *testing.T) {
	s := newSite(t)
	r := s.start(t, "SVC_TEST_MINT=refused").awaitUp()
	require.Contains(t, r.text.String(), `WARN: there is no runner why="POST /api/v1/farm/enrollments: 403 role_required`)
	_, text := r.stop()
	require.Contains(t, text, ", without a runner\n")

	r = s.start(t, "SVC_TEST_RUNNER_EXIT=78").until("there is no runner from now on").awaitUp()
	_, _ = r.stop()

	r = s.start(t).awaitUp()
	pid := s.runnerPID(t)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	r.until(`WARN: the runner ended by itself and will be restarted why="signal: killed" in="1s"`)
	require.Eventually(t, func() bool { now := s.runnerPID(t); return now != 0 && now != pid }, time.Minute, 10*time.Millisecond)
	pid = s.runnerPID(t)
	require.True(t, alive(pid))
	require.True(t, alive(r.pids["svc-rest"]))
	code, _ := r.stop()
	require.Zero(t, code)
	require.False(t, alive(pid))
	s.requireGone(t, r)
}

// runnerPID returns the process id of the runner that was started last.
func (s *site) runnerPID(t *testing.T) int {
	written, err := os.ReadFile(filepath.Join(s.data, "runner", "pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(written))
	if len(written) > 0 { // complete
		require.NoError(t, err)
	}
	return pid
}

// dev.json has what is needed to enroll another machine.
func TestDevJSONDescribesTheFarm(t *testing.T) {
	s := newSite(t)
	r := s.start(t).awaitUp()
	a := s.readDevJSON(t)
	require.Regexp(t, `^https://127\.0\.0\.1:\d+$`, a.FarmURL)
	require.NoError(t, release.VerifyFolder(a.FarmReleasesDir, nil))
	text, err := os.ReadFile(a.FarmCAFile)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	for _, host := range []string{"127.0.0.1", "localhost"} {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host}}}
		res, err := client.Get(a.FarmURL + "/api/v1/runs")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusNotFound, res.StatusCode)
	}
	env := environment(t, a.RestURL)
	require.Equal(t, a.FarmURL, env["SVC_FARM_PUBLIC_URL"])
	require.Equal(t, a.FarmReleasesDir, env["SVC_FARM_RELEASES_DIR"])
	require.Equal(t, a.FarmCAFile, env["SVC_FARM_CA_FILE"])
	require.Equal(t, "127.0.0.1/32,::1/128", env["SVC_FARM_TRUSTED_PROXIES"])
	require.True(t, filepath.IsAbs(env["SVC_ARTIFACT_STORE"]))
	_, _ = r.stop()
	for _, name := range []string{authorityKey, gatewayKey, "release.key", "runner/credentials.pem"} {
		require.Equal(t, os.FileMode(0o600), mode(t, filepath.Join(s.data, name)))
	}
}

func TestGatewayCertificateIsKeptAndRenewed(t *testing.T) {
	f, err := openFolder(t.TempDir())
	require.NoError(t, err)
	defer f.close()
	now := time.Now()
	made := func(at time.Time, host string) [2]string {
		t.Helper()
		require.NoError(t, f.gatewayCertificate(host, at))
		pair, err := tls.LoadX509KeyPair(f.file(gatewayFile), f.file(gatewayKey))
		require.NoError(t, err)
		ca, err := tls.LoadX509KeyPair(f.file(authorityFile), f.file(authorityKey))
		require.NoError(t, err)
		roots := x509.NewCertPool()
		roots.AddCert(ca.Leaf)
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: at})
		require.NoError(t, err)
		return [2]string{ca.Leaf.SerialNumber.String(), pair.Leaf.SerialNumber.String()}
	}
	day := 24 * time.Hour
	first := made(now, "127.0.0.1")
	require.Equal(t, first, made(now.Add(300*day), "127.0.0.1"))
	later := made(now.Add(310*day), "127.0.0.1")
	require.Equal(t, first[0], later[0])
	require.NotEqual(t, first[1], later[1], "near its end")
	named := made(now.Add(310*day), "farm.localhost")
	require.NotEqual(t, later[1], named[1], "of another host")

	other, err := os.ReadFile(f.file(authorityKey))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(f.file(gatewayKey), other, 0o600))
	require.NotEqual(t, named[1], made(now, "127.0.0.1")[1], "a key that does not fit")
	require.NotEqual(t, first[0], made(now.AddDate(9, 0, 0), "127.0.0.1")[0], "the authority is near its end")
	require.NoError(t, os.WriteFile(f.file(authorityFile), []byte("hello"), 0o600))
	made(now, "127.0.0.1")
}

func TestReleaseIsPackedWhenProgramChanges(t *testing.T) {
	f, err := openFolder(t.TempDir())
	require.NoError(t, err)
	defer f.close()
	programs := t.TempDir()
	build := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(programs, "svc-runner"), []byte(text), 0o700))
	}
	var said bytes.Buffer
	s := stack{folder: f, programs: programs, out: &output{w: &said}}
	packs := func() bool {
		said.Reset()
		require.NoError(t, s.packRelease(time.Now()))
		require.NoError(t, release.VerifyFolder(f.file(releasesFolder), nil))
		return said.Len() > 0
	}
	build("one")
	require.True(t, packs())
	require.False(t, packs())
	build("two")
	require.True(t, packs())
	require.False(t, packs())
	require.NoError(t, os.WriteFile(filepath.Join(f.file(releasesFolder), release.Version, release.SumsFile), nil, 0o600))
	require.True(t, packs(), "it was spoilt")

	key, err := release.OpenKey(f.file("release.key"))
	require.NoError(t, err)
	path := filepath.Join(programs, "svc-runner")
	require.NoError(t, release.Repack(f.file(releasesFolder), release.Latest{Version: release.Version}, []release.Build{
		{OS: runtime.GOOS, Arch: runtime.GOARCH, Path: path}, {OS: "plan9", Arch: "arm", Path: path},
	}, key))
	build("three")
	require.False(t, packs(), "make release has made it, for more platforms")
}
