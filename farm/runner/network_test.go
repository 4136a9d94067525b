//go:build linux

package runner

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/wire"
)

// gitServer serves the repositories in a folder by TLS, with a certificate for example.com and 127.0.0.1. It
// returns the server and the file of its authority.
func gitServer(t *testing.T, root string) (server *httptest.Server, authority string) {
	path, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	server = httptest.NewUnstartedServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
		Stderr: io.Discard,
	})
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	authority = filepath.Join(t.TempDir(), "authority.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(authority, text, 0o600))
	return server, authority
}

// Submodules and files of Git LFS are part of a checkout. The repository's password reaches no submodule, and no
// address of .lfsconfig is asked.
func TestCheckoutOfSubmodulesAndLFS(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	root := t.TempDir()
	sub, subCommit := repository(t)
	require.NoError(t, os.Rename(sub, filepath.Join(root, "sub.git")))
	repo, _ := repository(t)
	const large = "what git does not store\n"
	sum := sha256.Sum256([]byte(large))
	inGit(t, repo, "update-index", "--add", "--cacheinfo", "160000,"+subCommit+",nested")
	commitFiles(t, repo, map[string]string{
		".gitmodules":    "[submodule \"nested\"]\n\tpath = nested\n\turl = ../sub.git\n\tupdate = none\n",
		".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
		".lfsconfig":     "[lfs]\n\turl = https://127.0.0.1:1/elsewhere\n",
		"large.bin":      fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", sum, len(large)),
	})
	require.NoError(t, os.Rename(repo, filepath.Join(root, "main.git")))
	var leaked atomic.Int32
	server, authority := gitServer(t, root)
	backend := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		switch {
		case strings.HasPrefix(r.URL.Path, "/sub.git"):
			if ok {
				leaked.Add(1)
			}
			backend.ServeHTTP(w, r)
		case user+password != "builderpassword-of-repo":
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/main.git/info/lfs/objects/batch":
			w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
			_, _ = fmt.Fprintf(w, `{"transfer":"basic","objects":[{"oid":"%x","size":%d,"authenticated":true,"actions":{"download":`+
				`{"href":"https://%s/main.git/large","header":{"Authorization":"%s"}}}}]}`, sum, len(large), r.Host, r.Header.Get("Authorization"))
		case r.URL.Path == "/main.git/large":
			_, _ = io.WriteString(w, large)
		default:
			backend.ServeHTTP(w, r)
		}
	})
	start(t, f.enrolled(), func(c *Config) {
		c.GitProtocols, c.Environ = "https", []string{"SSL_CERT_FILE=" + authority}
	})
	source := &wire.Source{URL: "https://builder:password-of-repo@" + server.Listener.Addr().String() + "/main.git", Ref: "refs/heads/main"}
	k := f.assign(wire.Assign{Source: source,
		Steps: steps("cat nested/file large.bin; git status --porcelain | sed 's/^/changed /'")})
	require.Equal(t, "succeeded", f.ended(k).Outcome, f.log(k))
	require.Contains(t, f.log(k), "content\n"+large)
	require.NotContains(t, f.log(k), "changed")
	require.Zero(t, leaked.Load())
	k = f.assign(wire.Assign{Source: source, Collect: true, Steps: steps("cat nested/file large.bin")})
	require.Equal(t, "succeeded", f.ended(k).Outcome, f.log(k))
	require.Contains(t, f.log(k), "content\nversion https://git-lfs", "changes are made to what git stores")
}

// proxyTo is a proxy that leads to one address, whatever it is asked for, and counts how often it is asked by somebody
// with the password.
func proxyTo(t *testing.T, address, authorization string) (proxy string, asked *atomic.Int32) {
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != authorization {
			w.Header().Set("Proxy-Authenticate", "Basic")
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		asked.Add(1)
		to, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", address)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		go func() { _, _ = io.Copy(to, from); _ = to.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(from, to)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), asked
}

// Git and steps reach others through the machine's proxy and trust its authority. The proxy's password is in no log.
func TestProxyAndPrivateAuthority(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	repo, commit := repository(t)
	server, authority := gitServer(t, filepath.Dir(repo))
	address := server.Listener.Addr().String()
	proxy, asked := proxyTo(t, address, "Basic YnVpbGRlcjpwYXNzd29yZC1vZi1wcm94eQ==")
	path := "/" + filepath.Base(repo) + "/.git"
	start(t, f.enrolled(), func(c *Config) {
		c.GitProtocols = "https"
		c.Environ = []string{"https_proxy=http://builder:password-of-proxy@" + proxy, "NO_PROXY=127.0.0.1", "SSL_CERT_FILE=" + authority}
	})
	for _, kind := range []string{"none", "bubblewrap"} {
		asked.Store(0)
		k := f.assign(wire.Assign{
			Source: &wire.Source{URL: "https://example.com" + path, Commit: commit}, Sandbox: wire.Sandbox{Kind: kind, Network: "host"},
			Steps: steps("git ls-remote https://example.com"+path+" | sed 's/^/listed /'",
				`echo "$HTTPS_PROXY"; grep -q CERTIFICATE "$SSL_CERT_FILE"; test "$no_proxy" = 127.0.0.1`),
		})
		require.Equal(t, "succeeded", f.ended(k).Outcome, "%s: %s", kind, f.log(k))
		require.Contains(t, f.log(k), "listed "+commit)
		require.Contains(t, f.log(k), "http://***@")
		require.NotContains(t, f.log(k), "password-of-proxy")
		require.GreaterOrEqual(t, asked.Load(), int32(2), "git of the checkout, and of the step")

		asked.Store(0)
		k = f.assign(wire.Assign{
			Source: &wire.Source{URL: "https://" + address + path, Commit: commit}, Sandbox: wire.Sandbox{Kind: kind},
			Env:   map[string]string{"Https_Proxy": "x", "HTTPS_PROXY": "own"},
			Steps: steps(`test "$HTTPS_PROXY,$https_proxy" = own,`),
		})
		require.Equal(t, "succeeded", f.ended(k).Outcome, "%s: %s", kind, f.log(k))
		require.Zero(t, asked.Load(), "NO_PROXY names the host")
	}
}
