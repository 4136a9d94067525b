package pgtest_test

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

// runHelper returns a command that runs one test of this binary in a new process, with its own cluster.
func runHelper(t *testing.T, test string, env ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+test+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// TestHelperStays uses a database, and with PGTEST_STAY waits until it is killed.
func TestHelperStays(t *testing.T) {
	pool := pgtest.New(t)
	require.Empty(t, nonEmptyTables(t, pool))
	if os.Getenv("PGTEST_STAY") != "" {
		_, err := io.WriteString(os.Stdout, "\nin use\n")
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

// killHelper runs TestHelperStays and kills it while it uses its database.
func killHelper(t *testing.T, env ...string) (pid string) {
	t.Helper()
	cmd := runHelper(t, "TestHelperStays", append(env, "PGTEST_STAY=1")...)
	_, err := cmd.StdinPipe() // never closed: the helper waits
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	ready := false
	for !ready && lines.Scan() {
		ready = lines.Text() == "in use"
	}
	require.True(t, ready, "the helper ended early")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	return strconv.Itoa(cmd.Process.Pid)
}

func TestNothingIsLeftBehind(t *testing.T) {
	cmd := runHelper(t, "TestHelperStays")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Empty(t, folders(t, strconv.Itoa(cmd.Process.Pid)))
}

func TestNextBinaryRemovesRemainsOfKilledOne(t *testing.T) {
	pid := killHelper(t, "TEST_DATABASE_URL=")
	require.Len(t, folders(t, pid), 1)
	// PostgreSQL of the killed process may still be ending, and writing files.
	require.Eventually(t, func() bool {
		out, err := runHelper(t, "TestHelperStays", "TEST_DATABASE_URL=").CombinedOutput()
		require.NoError(t, err, string(out))
		return len(folders(t, pid)) == 0
	}, time.Minute, 10*time.Millisecond)
}

func TestServerFromEnvironment(t *testing.T) {
	server := pgtest.Durable(t)
	address := server.URL("postgres")
	databases := func() (names []string) {
		conn, err := pgx.Connect(t.Context(), address)
		require.NoError(t, err)
		defer conn.Close(t.Context())
		found, err := conn.Query(t.Context(), "select datname from pg_database where datname like 'svc%'")
		require.NoError(t, err)
		names, err = pgx.CollectRows(found, pgx.RowTo[string])
		require.NoError(t, err)
		return names
	}
	pid := killHelper(t, "TEST_DATABASE_URL="+address)
	require.Empty(t, folders(t, pid), "no cluster of its own")
	require.Len(t, databases(), 2, "its template and its clone")

	require.Eventually(t, func() bool { // the server may not have seen yet that the killed run is gone
		out, err := runHelper(t, "TestHelperStays", "TEST_DATABASE_URL="+address).CombinedOutput()
		require.NoError(t, err, string(out))
		return len(databases()) == 0
	}, time.Minute, time.Millisecond, "neither its own nor those of the killed run")

	parsed, err := url.Parse(address)
	require.NoError(t, err)
	password, _ := parsed.User.Password()
	for _, wrong := range []string{strings.Replace(address, "svc:", "svc :", 1), strings.Replace(address, "://", "#//", 1)} {
		out, err := runHelper(t, "TestHelperStays", "TEST_DATABASE_URL="+wrong).CombinedOutput()
		require.Error(t, err)
		require.NotContains(t, string(out), password)
	}
}
