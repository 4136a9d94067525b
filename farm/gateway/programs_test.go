//go:build gateways

package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/test/address"
)

// init adds the programs, with the configurations that docs/gateway has of them.
func init() {
	programs = []*program{
		{name: "nginx", start: startNginx, verifies: true, limitsChunked: true},
		{name: "HAProxy", start: startHAProxy},
		{name: "Caddy", start: startCaddy, limitsChunked: true, keepsSpellings: true},
	}
}

func startNginx(t *testing.T, p *program) *subject {
	return p.run(t, "nginx.conf", func(c *configuration) *exec.Cmd {
		c.replace("listen 443 ssl", "listen "+c.address+" ssl")
		c.replace("/etc/ssl/farm/cert.pem", filepath.Join(c.folder, "cert.pem"))
		c.replace("/etc/ssl/farm/key.pem", filepath.Join(c.folder, "key.pem"))
		c.replace("client_header_timeout 10s", "client_header_timeout 1s")
		c.replace("http {", "http {\nclient_body_temp_path "+c.folder+"/body;\nproxy_temp_path "+c.folder+"/proxy;\n"+
			"fastcgi_temp_path "+c.folder+"/fastcgi;\nuwsgi_temp_path "+c.folder+"/uwsgi;\nscgi_temp_path "+c.folder+"/scgi;\naccess_log off;")
		global := "daemon off; pid " + c.folder + "/pid; error_log stderr crit;"
		if os.Geteuid() == 0 {
			global += " user root;"
		}
		return exec.CommandContext(t.Context(), "nginx", "-p", c.folder, "-e", "stderr", "-c", c.file, "-g", global)
	})
}

func startHAProxy(t *testing.T, p *program) *subject {
	return p.run(t, "haproxy.cfg", func(c *configuration) *exec.Cmd {
		c.replace("bind :443 ", "bind "+c.address+" ")
		c.replace("/etc/haproxy/farm.pem", filepath.Join(c.folder, "both.pem"))
		c.replace("maxconn 20000", "maxconn 1000") // it would need more files than a user may open
		c.replace("timeout http-request 10s", "timeout http-request 1s")
		c.replace("timeout client 60s", "timeout client 2s")
		return exec.CommandContext(t.Context(), "haproxy", "-db", "-f", c.file)
	})
}

func startCaddy(t *testing.T, p *program) *subject {
	return p.run(t, "Caddyfile", func(c *configuration) *exec.Cmd {
		_, port, err := net.SplitHostPort(c.address)
		require.NoError(t, err)
		c.replace(":443 {", ":"+port+" {\nbind 127.0.0.1")
		c.replace("/etc/ssl/farm/cert.pem", filepath.Join(c.folder, "cert.pem"))
		c.replace("/etc/ssl/farm/key.pem", filepath.Join(c.folder, "key.pem"))
		c.replace("read_header 10s", "read_header 1s")
		cmd := exec.CommandContext(t.Context(), "caddy", "run", "--adapter", "caddyfile", "--config", c.file)
		cmd.Env = append(os.Environ(), "HOME="+c.folder, "XDG_DATA_HOME="+c.folder, "XDG_CONFIG_HOME="+c.folder)
		return cmd
	})
}

// A configuration is a file of docs/gateway that is adapted to a test.
type configuration struct {
	t             *testing.T
	text          string
	folder        string
	file, address string // where the program finds it, and listens
}

// replace replaces an example in the file.
func (c *configuration) replace(example, by string) {
	c.t.Helper()
	require.Contains(c.t, c.text, example)
	c.text = strings.ReplaceAll(c.text, example, by)
}

// run runs the program with a configuration until the test ends.
func (p *program) run(t *testing.T, name string, adapt func(*configuration) *exec.Cmd) *subject {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs/gateway", name))
	require.NoError(t, err)
	s := &subject{service: newService(t), program: p, roots: x509.NewCertPool()}
	server := issue(t, leaf{server: true})
	s.roots.AddCert(server.Leaf)
	c := &configuration{t: t, text: string(text), folder: t.TempDir(), address: address.Free(t)}
	s.address, c.file = c.address, filepath.Join(c.folder, name)
	write(t, c.folder, server)
	both, err := os.ReadFile(filepath.Join(c.folder, "key.pem"))
	require.NoError(t, err)
	both = append(both, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate[0]})...)
	require.NoError(t, os.WriteFile(filepath.Join(c.folder, "both.pem"), both, 0o600))
	c.replace("127.0.0.1:4000", s.service.url.Host)
	cmd := adapt(c)
	require.NoError(t, os.WriteFile(c.file, []byte(c.text), 0o600))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = waitLimit
	require.NoError(t, cmd.Start(), "make test-gateways installs it")
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	s.stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Log(said.String())
		}
	}
	t.Cleanup(s.stop)
	s.await(t, ended)
	return s
}

// await waits until the program answers.
func (s *subject) await(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	limit := time.Now().Add(waitLimit)
	for {
		conn, err := tls.Dial("tcp", s.address, s.tlsWith(nil))
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-ended:
			require.FailNow(t, "it has ended")
		case <-time.After(10 * time.Millisecond):
			require.True(t, time.Now().Before(limit), "%v", err)
		}
	}
}
