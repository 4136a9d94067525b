// Package installer runs the installer of the build farm's agent, as a person does who
// has copied its command: by curl, through the real gateway, from a private CA.
package installer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/gateway"
	"svc/farm/release"
	"svc/http/farm"
	"svc/http/serve"
	"svc/test/pgtest"
)

const version = "1.2.3"

// TestMain is svc-runner itself where the installer runs it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		if err := runner(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "svc-runner:", err)
			os.Exit(1)
		}
		return
	}
	pgtest.Main(m)
}

// runner does what the installer asks of svc-runner. It verifies signatures as that does, and notes what else it is told.
func runner(command string, args []string) error {
	option := func(name string) string {
		for i := range len(args) - 1 {
			if args[i] == "--"+name {
				return args[i+1]
			}
		}
		return ""
	}
	switch command {
	case "verify":
		keys, err := release.ParseKeys(strings.Split(option("keys"), ","))
		if err != nil {
			return err
		}
		_, err = release.VerifyFile(args[len(args)-1], option("version"), keys)
		return err
	case "version":
		fmt.Println("svc-runner", os.Getenv("SVC_TEST_VERSION"))
		return nil
	case "enroll":
		if os.Getenv("SVC_ENROLL_TOKEN") == "tok_enr_refused" {
			return fmt.Errorf("enrollment_invalid")
		}
		if err := os.WriteFile(filepath.Join(option("data-dir"), "lock"), nil, 0o600); err != nil {
			return err
		}
		note := strings.Join(append([]string{os.Getenv("SVC_ENROLL_TOKEN")}, args...), "\n")
		return os.WriteFile(filepath.Join(option("data-dir"), "enrolled"), []byte(note), 0o600)
	case "uninstall":
		return errors.Join(os.Remove(filepath.Join(option("data-dir"), "lock")), os.Remove(filepath.Join(option("data-dir"), "enrolled")))
	}
	return fmt.Errorf("unknown command %s", command)
}

// A site is a farm that can be installed from.
type site struct {
	t        *testing.T
	url      string
	ca       string // file of the private CA's certificate
	releases string
	key      ed25519.PrivateKey
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, releases: filepath.Join(t.TempDir(), "releases")}
	var err error
	_, s.key, err = ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	s.pack(runtime.GOARCH, program(t, version))

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.url = "https://" + ln.Addr().String()
	address, err := url.Parse(s.url)
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	rest := httptest.NewServer(farm.Releases{Enabled: true, Folder: release.NewFolder(s.releases, nil), PublicURL: address,
		Log: log}.Handler())
	t.Cleanup(rest.Close)
	behind, err := url.Parse(rest.URL)
	require.NoError(t, err)
	g := gateway.New(behind, "X-Svc-Client-Cert", gateway.Rules(1<<20), log)
	t.Cleanup(g.Close)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	certificates := s.certificates(log)
	go func() { done <- serve.Server{Handler: g, Log: log}.Run(ctx, tls.NewListener(ln, certificates.TLS())) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s
}

// certificates are signed by a CA that no machine knows.
func (s *site) certificates(log *slog.Logger) *gateway.Certificates {
	cert, key, ca := certificate(s.t)
	s.ca = ca
	c, err := gateway.OpenCertificates(cert, key, time.Now, log)
	require.NoError(s.t, err)
	return c
}

func (s *site) issue(parent *x509.Certificate, by *ecdsa.PrivateKey, ca bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(s.t, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: ca, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	form.Subject.CommonName = "gateway"
	if ca {
		form.Subject.CommonName = "CA"
		form.IPAddresses, form.KeyUsage, parent, by = nil, x509.KeyUsageCertSign, form, key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, key.Public(), by)
	require.NoError(s.t, err)
	made, err := x509.ParseCertificate(der)
	require.NoError(s.t, err)
	return made, key
}

// program makes a small one, of a version, that becomes this one.
func program(t *testing.T, version string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "svc-runner")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nSVC_TEST_VERSION="+version+" exec '"+self+"' \"$@\"\n"), 0o600))
	return path
}

func (s *site) pack(arch, program string) {
	s.t.Helper()
	builds := []release.Build{{OS: runtime.GOOS, Arch: arch, Path: program}}
	require.NoError(s.t, release.Pack(s.releases, release.Latest{Version: version, MinProtocol: "svc-farm.v1"}, builds, s.key))
}

func (s *site) file(name string) string { return filepath.Join(s.releases, version, name) }

// A machine is where the agent is installed, without root.
type machine struct {
	*site
	root, data string
	path       string // of programs, "" for all that there are
}

func (s *site) machine() *machine {
	dir := s.t.TempDir()
	return &machine{site: s, root: filepath.Join(dir, "root"), data: filepath.Join(dir, "data")}
}

func (m *machine) bin() string { return filepath.Join(m.root, "usr/local/bin/svc-runner") }

// script downloads the installer.
func (m *machine) script() string {
	m.t.Helper()
	out, err := exec.CommandContext(m.t.Context(), "curl", "-fsS", "--cacert", m.ca, m.url+"/install.sh").Output()
	require.NoError(m.t, err)
	return string(out)
}

// install runs an installer with arguments, and returns what it said.
func (m *machine) install(script string, args ...string) (string, error) {
	m.t.Helper()
	args = append([]string{"-s", "--", "--no-service", "--prefix", m.root, "--data-dir", m.data}, args...)
	cmd := exec.CommandContext(m.t.Context(), "/bin/sh", args...)
	cmd.Stdin = strings.NewReader(script)
	path := os.Getenv("PATH")
	if m.path != "" {
		path = m.path
	}
	temporary := m.t.TempDir()
	cmd.Env = []string{"PATH=" + path, "TMPDIR=" + temporary, "HOME=" + m.t.TempDir()}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	left, failed := os.ReadDir(temporary)
	require.NoError(m.t, failed)
	require.Empty(m.t, left, "no temporary file is left")
	return said.String(), err
}

// refuses runs an installer that must fail, and leave nothing.
func (m *machine) refuses(want, script string, args ...string) {
	m.t.Helper()
	said, err := m.install(script, args...)
	require.Error(m.t, err, said)
	require.Contains(m.t, said, want)
	require.NoFileExists(m.t, m.bin())
	require.NoFileExists(m.t, m.bin()+".new")
	require.NoDirExists(m.t, m.data)
}

// only makes a folder of programs that is all that the machine has.
func (m *machine) only(programs ...string) {
	m.t.Helper()
	m.path = m.t.TempDir()
	for _, name := range append(programs, "awk", "cat", "chmod", "cp", "cut", "gzip", "id", "ls", "mkdir", "mktemp", "mv", "rm", "rmdir",
		"sha256sum", "tr", "uname") {
		at, err := exec.LookPath(name)
		require.NoError(m.t, err)
		require.NoError(m.t, os.Symlink(at, filepath.Join(m.path, name)))
	}
}
