package installer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/dev/seed"
	"svc/farm/release"
	"svc/test/pgtest"
	"svc/vault"
)

// waitLimit is how long anything that is waited for may take.
const waitLimit = 2 * time.Minute

// A realFarm is a service with its gateway and a release of the agent, all of them real programs.
type realFarm struct {
	t        *testing.T
	bin      string // folder of programs
	rest     string // address of the service
	gateway  string
	ca       string // file of the private CA's certificate
	releases string
	key      ed25519.PrivateKey // of the releases
	cookie   *http.Cookie       // of an Owner
}

func newFarm(t *testing.T) *realFarm {
	t.Helper()
	f := &realFarm{t: t, bin: t.TempDir(), releases: filepath.Join(t.TempDir(), "releases")}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", f.bin,
		"svc/cmd/svc-rest", "svc/cmd/svc-gateway", "svc/cmd/svc-runner").CombinedOutput()
	require.NoError(t, err, string(out))
	key, err := release.OpenKey(filepath.Join(t.TempDir(), "release.key"))
	require.NoError(t, err)
	builds := []release.Build{{OS: runtime.GOOS, Arch: runtime.GOARCH, Path: filepath.Join(f.bin, "svc-runner")}}
	require.NoError(t, release.Pack(f.releases, release.Latest{Version: release.Version, MinProtocol: "svc-farm.v1"}, builds, key))
	f.key = key

	database := pgtest.URL(t)
	ring, err := vault.NewRing([]config.Secret{config.Secret(strings.Repeat("v", 32))})
	require.NoError(t, err)
	require.NoError(t, seed.Development(t.Context(), database, ring, filepath.Join(t.TempDir(), "demo.json"), time.Now()))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f.gateway = "https://" + ln.Addr().String()
	cert, secret, ca := certificate(t)
	f.rest = "http://" + f.start(nil, "svc-rest", "SVC_REST_ADDR=127.0.0.1:0", "SVC_DATABASE_URL="+database,
		"SVC_ENGINE_URL=http://127.0.0.1:1", "SVC_ENGINE_SHARED_SECRET="+strings.Repeat("e", 16), "AUTH_URL=http://127.0.0.1:4000",
		"AUTH_SECRET="+strings.Repeat("a", 32), "SVC_VAULT_MASTER_KEY="+strings.Repeat("v", 32), "SVC_DEV_SIGN_IN=true",
		"SVC_FARM_PUBLIC_URL="+f.gateway, "SVC_FARM_CA_FILE="+ca, "SVC_FARM_RELEASES_DIR="+f.releases,
		"SVC_FARM_CLIENT_CERT_HEADER=X-Svc-Client-Cert",
		"SVC_FARM_TRUSTED_PROXIES=127.0.0.1", "SVC_ARTIFACT_STORE="+t.TempDir()).listens()
	f.ca = ca
	socket, err := ln.(*net.TCPListener).File()
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	f.start(socket, "svc-gateway", "SVC_GATEWAY_ADDR=fd://3", "SVC_GATEWAY_TLS_CERT="+cert, "SVC_GATEWAY_TLS_KEY="+secret,
		"SVC_GATEWAY_REST_URL="+f.rest).listens()
	require.NoError(t, socket.Close())
	f.signIn()
	return f
}

// A process is one of the programs.
type process struct {
	t   *testing.T
	cmd *exec.Cmd

	mu    sync.Mutex
	said  bytes.Buffer
	ended chan struct{}
}

func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(text)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// start runs a program until the test ends, with a socket as its file 3 if there is one.
func (f *realFarm) start(socket *os.File, program string, environ ...string) *process {
	f.t.Helper()
	return f.run(exec.CommandContext(f.t.Context(), filepath.Join(f.bin, program)), socket, environ)
}

func (f *realFarm) run(cmd *exec.Cmd, socket *os.File, environ []string) *process {
	f.t.Helper()
	p := &process{t: f.t, cmd: cmd, ended: make(chan struct{})}
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, p, p
	if socket != nil {
		cmd.ExtraFiles = []*os.File{socket}
	}
	require.NoError(f.t, cmd.Start())
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // ProcessState says how it ended
	}()
	f.t.Cleanup(func() {
		p.stop()
		if f.t.Failed() {
			f.t.Logf("%s said:\n%s", cmd.Path, p.text())
		}
	})
	return p
}

// stop asks it to end, and has it end.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(waitLimit):
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.t.Errorf("%s did not stop", p.cmd.Path)
	}
}

var listening = regexp.MustCompile(`msg=listening address=(\S+)`)

// listens waits until it says where.
func (p *process) listens() (address string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		if found := listening.FindStringSubmatch(p.text()); found != nil {
			address = found[1]
		}
		return address != ""
	}, waitLimit, 5*time.Millisecond, p.text)
	return address
}

// certificate is one for 127.0.0.1 of a CA that no machine knows, in files.
func certificate(t *testing.T) (cert, key, ca string) {
	t.Helper()
	s := &site{t: t}
	dir := t.TempDir()
	root, authority := s.issue(nil, nil, true)
	leaf, private := s.issue(root, authority, false)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key, ca = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: leaf.Raw}, key: {Type: "PRIVATE KEY", Bytes: der}, ca: {Type: "CERTIFICATE", Bytes: root.Raw},
	} {
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key, ca
}

func (f *realFarm) signIn() {
	res, err := http.Post(f.rest+"/api/auth/sign-in/email", "application/json",
		strings.NewReader(`{"email":"ada@acme.example","password":"demonstration"}`))
	require.NoError(f.t, err)
	defer res.Body.Close()
	require.Equal(f.t, 200, res.StatusCode)
	f.cookie = res.Cookies()[0]
}

// ask sends a request of the Owner's, and decodes the answer.
func (f *realFarm) ask(method, path, body string, status int, answer any) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.rest+path, strings.NewReader(body))
	require.NoError(f.t, err)
	r.AddCookie(f.cookie)
	r.Header.Set("X-Svc-Tenant", "acme")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(f.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(f.t, err)
	require.Equal(f.t, status, res.StatusCode, string(text))
	require.NoError(f.t, json.Unmarshal(text, answer), string(text))
}

// state is what the service says of its only runner.
func (f *realFarm) state() string {
	var list struct{ Items []struct{ State string } }
	f.ask("GET", "/api/v1/farm/runners", "", 200, &list)
	require.Len(f.t, list.Items, 1)
	return list.Items[0].State
}

// install runs the command that a person copies, as it is, on a machine that has nothing. Its sudo needs no root and
// has no systemd made a service.
func (f *realFarm) install(command, root, data string) (string, error) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), "/bin/sh", "-c", command)
	cmd.Dir = f.t.TempDir()
	sudo := "#!/bin/sh\nshift 3\nexec sh -s -- --no-service --prefix '" + root + "' --data-dir '" + data + "' \"$@\"\n"
	programs := f.t.TempDir()
	require.NoError(f.t, os.WriteFile(filepath.Join(programs, "sudo"), []byte(sudo), 0o700))
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A person mints an enrollment and copies the command; a machine that has nothing but curl
// is a runner, and online.
func TestFromNothingToAnOnlineRunner(t *testing.T) {
	f := newFarm(t)
	for path, want := range map[string]int{"/install.sh": 200, "/runner/latest.json": 200, "/api/v1/runs": 404, "/internal/runs": 404} {
		require.Equal(t, want, f.outside(path), path)
	}
	var minted struct {
		Command, CommandPrivateCA string
		PrivateCA                 struct {
			Certificate  string
			Fingerprints []string
		}
	}
	f.ask("POST", "/api/v1/farm/enrollments", `{"name":"builder-1"}`, 201, &minted)
	ca, err := os.ReadFile(f.ca)
	require.NoError(t, err)
	require.Equal(t, string(ca), minted.PrivateCA.Certificate)
	shown, err := exec.CommandContext(t.Context(), "openssl", "x509", "-in", f.ca, "-noout", "-fingerprint", "-sha256").Output()
	require.NoError(t, err)
	require.Len(t, minted.PrivateCA.Fingerprints, 1)
	require.True(t, strings.HasSuffix(string(shown), "="+minted.PrivateCA.Fingerprints[0]+"\n"), string(shown))
	require.Contains(t, minted.CommandPrivateCA, " --server-ca ca.pem ", "for whoever saves the certificate himself")

	dir := t.TempDir()
	root, data := filepath.Join(dir, "root"), filepath.Join(dir, "data")
	said, err := f.install(minted.Command, root, data)
	require.NoError(t, err, said)
	require.NotEqual(t, "online", f.state())

	bin := filepath.Join(root, "usr/local/bin/svc-runner")
	status := func() error { return exec.CommandContext(t.Context(), bin, "status", "--data-dir", data).Run() }
	require.Error(t, status(), "it does not run yet")
	run := f.run(exec.CommandContext(t.Context(), bin, "run", "--data-dir", data), nil, []string{"PATH=" + os.Getenv("PATH")})
	require.Eventually(t, func() bool { return status() == nil && f.state() == "online" }, waitLimit, 50*time.Millisecond)

	said, err = f.install(minted.Command, filepath.Join(dir, "other"), filepath.Join(dir, "other-data"))
	require.Error(t, err, "a command works once")
	require.Contains(t, said, "Ask for a new command")

	f.doesNotGoBack(minted.Command, root, data)
	run.stop()
	require.Zero(t, run.cmd.ProcessState.ExitCode(), run.text())
	require.Eventually(t, func() bool { return f.state() == "offline" }, waitLimit, 50*time.Millisecond)
	require.Error(t, status())
	said, err = f.install(strings.Replace(minted.Command, "--token", "--uninstall --token", 1), root, data)
	require.NoError(t, err, said)
	require.NoFileExists(t, bin)
	require.NoDirExists(t, data)
	require.Equal(t, "revoked", f.state())
}

// doesNotGoBack puts back a release that was signed once, and the latest.json of that time, as whoever can write to
// the folder of releases can.
func (f *realFarm) doesNotGoBack(command, root, data string) {
	f.t.Helper()
	bin := filepath.Join(root, "usr/local/bin/svc-runner")
	installed := func() string {
		out, err := exec.CommandContext(f.t.Context(), bin, "version").Output()
		require.NoError(f.t, err)
		return string(out)
	}
	require.NoError(f.t, os.Remove(filepath.Join(f.releases, release.LatestFile)))
	builds := []release.Build{{OS: runtime.GOOS, Arch: runtime.GOARCH, Path: program(f.t, "0.1.0")}}
	require.NoError(f.t, release.Pack(f.releases, release.Latest{Version: "0.1.0"}, builds, f.key))
	said, err := f.install(strings.Replace(command, "--token", "--no-enroll --token", 1), root, data)
	require.Error(f.t, err, said)
	require.Contains(f.t, said, "release 0.1.0 is signed, but older than this program, "+release.Version)
	require.Contains(f.t, said, "with --version 0.1.0 it is installed all the same")
	require.Equal(f.t, "svc-runner "+release.Version+"\n", installed())

	other := f.t.TempDir() // the runner of the first is still needed
	require.NoError(f.t, os.CopyFS(other, os.DirFS(root)))
	said, err = f.install(strings.Replace(command, "--token", "--no-enroll --version 0.1.0 --token", 1), other, filepath.Join(other, "data"))
	require.NoError(f.t, err, said)
	bin = filepath.Join(other, "usr/local/bin/svc-runner")
	require.Equal(f.t, "svc-runner 0.1.0\n", installed())
}

// outside is how the gateway answers.
func (f *realFarm) outside(path string) int {
	pool := x509.NewCertPool()
	text, err := os.ReadFile(f.ca)
	require.NoError(f.t, err)
	require.True(f.t, pool.AppendCertsFromPEM(text))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get(f.gateway + path)
	require.NoError(f.t, err)
	require.NoError(f.t, res.Body.Close())
	return res.StatusCode
}
