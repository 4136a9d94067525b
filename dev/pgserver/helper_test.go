package pgserver_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/dev/pgserver"
)

// folder returns a folder for a cluster that the ordinary user as which root runs the server can
// reach.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	return filepath.Join(dir, "cluster")
}

func start(t *testing.T, c pgserver.Config) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	return server
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	return conn
}

func value(t *testing.T, server *pgserver.Server, query string) string {
	t.Helper()
	conn := connect(t, server.URL("postgres"))
	defer conn.Close(t.Context())
	var text string
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&text))
	return text
}

func execute(t *testing.T, server *pgserver.Server, statement string) {
	t.Helper()
	conn := connect(t, server.URL("postgres"))
	defer conn.Close(t.Context())
	_, err := conn.Exec(t.Context(), statement)
	require.NoError(t, err)
}

// processes returns the pids of all processes that work in a cluster's folder.
func processes(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	var found []string
	for _, process := range list {
		if cwd, err := os.Readlink(process + "/cwd"); err == nil && strings.HasPrefix(cwd, dir) {
			found = append(found, filepath.Base(process))
		}
	}
	return found
}

// postmaster returns the pid of a cluster's first process.
func postmaster(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	require.NoError(t, err)
	return pid
}

// runTest runs one test of this binary in a process of its own.
func runTest(t *testing.T, binary, test string, env ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, "-test.run=^"+test+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// eventually waits for a state that is reached without further action.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 2*time.Minute, 10*time.Millisecond, what)
}

// awaitLine returns the line in a file once it exists.
func awaitLine(t *testing.T, path string) string {
	t.Helper()
	var text []byte
	eventually(t, path, func() bool {
		var err error
		text, err = os.ReadFile(path)
		return err == nil && bytes.HasSuffix(text, []byte("\n"))
	})
	return string(bytes.TrimSpace(text))
}
