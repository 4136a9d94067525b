// Package natsserver starts NATS servers for tests. A server is a process of its own, so that no test binary has
// to compile it, least of all with the race detector.
package natsserver

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/test/child"
)

// limit bounds every wait for a server.
const limit = time.Minute

// Config configures a server.
type Config struct {
	Dir      string // of its streams, which a later server can take over; a temporary folder if it is empty
	Addr     string // "127.0.0.1:port"; any free port if it is empty
	Password string // of the user "svc"; without it everybody may connect
}

// Server is a running server with JetStream.
type Server struct {
	URL   string // of a client, with its password
	cmd   *exec.Cmd
	ended <-chan struct{}
}

// Start starts a server, which accepts connections once Start returns, and ends with t at the latest.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	ports := t.TempDir()
	host, port, err := net.SplitHostPort(cmp.Or(c.Addr, "127.0.0.1:-1"))
	require.NoError(t, err)
	args := []string{"--addr", host, "--port", port, "--jetstream", "--store_dir", cmp.Or(c.Dir, t.TempDir()), "--ports_file_dir", ports}
	user := (*url.Userinfo)(nil)
	if c.Password != "" {
		args = append(args, "--user", "svc", "--pass", c.Password)
		user = url.UserPassword("svc", c.Password)
	}
	path, err := program()
	require.NoError(t, err)
	output := &strings.Builder{}
	s := &Server{cmd: exec.Command(path, args...)}
	s.cmd.Stdout, s.cmd.Stderr = output, output
	s.ended, err = child.Start(s.cmd)
	require.NoError(t, err)
	t.Cleanup(func() { s.Stop(t) })

	for timeout := time.After(limit); s.URL == ""; {
		select {
		case <-s.ended:
			require.Fail(t, "the NATS server ended", output.String())
		case <-timeout:
			require.Fail(t, "the NATS server accepts no connections")
		case <-time.After(time.Millisecond):
			if addr := readAddr(ports); addr != "" {
				s.URL = (&url.URL{Scheme: "nats", User: user, Host: addr}).String()
			}
		}
	}
	return s
}

// readAddr returns the host:port in the file that a server writes when it accepts connections, or "".
func readAddr(folder string) string {
	files, _ := filepath.Glob(filepath.Join(folder, "*.ports")) // the pattern is well-formed
	if len(files) == 0 {
		return ""
	}
	text, err := os.ReadFile(files[0])
	var ports struct {
		NATS []string `json:"nats"`
	}
	if err != nil || json.Unmarshal(text, &ports) != nil || len(ports.NATS) == 0 { // not written as a whole yet
		return ""
	}
	return strings.TrimPrefix(ports.NATS[0], "nats://")
}

// Stop ends the server, unless it has ended, and waits until it has written its streams.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	_ = s.cmd.Process.Signal(os.Interrupt)
	select {
	case <-s.ended:
	case <-time.After(limit):
		_ = s.cmd.Process.Kill()
		<-s.ended
		require.Fail(t, "the NATS server did not stop")
	}
}

// program returns the path of the program, which Go builds at the version in go.mod and keeps in its cache. go run takes
// GOFLAGS, so that it shares what tests have compiled; go tool does not.
var program = sync.OnceValues(func() (path string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*limit) // it may have to be compiled
	defer cancel()
	for range 2 { // a program that is not in the cache is first run from a folder that go run removes
		var out []byte
		out, err = exec.CommandContext(ctx, "go", "run", "-exec", "echo", "github.com/nats-io/nats-server/v2").Output()
		path = strings.TrimSpace(string(out))
	}
	return path, err
})
