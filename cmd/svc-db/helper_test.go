package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const limit = time.Minute

// A database is an empty database and the environment to reach it.
type database struct {
	conn     *pgx.Conn
	cfg      *pgx.ConnConfig
	password string // required by the server, or any if it requires none
	environ  []string
}

func newDatabase(t *testing.T) *database {
	cfg, err := pgx.ParseConfig(pgtest.Empty(t))
	require.NoError(t, err)
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	d := &database{conn: conn, cfg: cfg, password: cfg.Password}
	if d.password == "" {
		d.password = marker
	}
	d.environ = []string{
		"SVC_DB_HOST=" + cfg.Host,
		fmt.Sprintf("SVC_DB_PORT=%d", cfg.Port),
		"SVC_DB_NAME=" + cfg.Database,
		"SVC_DB_USER=" + cfg.User,
		"SVC_DB_PASSWORD=" + d.password,
	}
	return d
}

func (d *database) exec(t *testing.T, sql string) {
	_, err := d.conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

// marker is a password that must never be shown.
const marker = "MARKER-of-the-password"

// A result is what an operator sees.
type result struct {
	status         int
	stdout, stderr string
}

// requireHidden fails the test if r shows the password.
func (r result) requireHidden(t *testing.T, password string) result {
	require.NotContains(t, r.stdout, password)
	require.NotContains(t, r.stderr, password)
	return r
}

// runHere runs svc-db in this process.
func runHere(t *testing.T, environ []string, args ...string) result {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	status := run(ctx, args, environ, &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}.requireHidden(t, marker)
}

// build builds the real program and returns its path.
func build(t *testing.T) string {
	path := t.TempDir() + "/svc-db"
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// start runs the real program with only environ as environment.
func start(t *testing.T, path string, environ []string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environ
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	require.NoError(t, cmd.Start())
	return cmd
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	_ = cmd.Wait() // a status other than 0 is part of the result
	require.True(t, cmd.ProcessState.Exited(), "ended by a signal")
	return result{
		cmd.ProcessState.ExitCode(),
		cmd.Stdout.(*bytes.Buffer).String(),
		cmd.Stderr.(*bytes.Buffer).String(),
	}.requireHidden(t, marker)
}
