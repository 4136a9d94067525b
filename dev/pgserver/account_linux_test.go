package pgserver

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestEveryAccount starts a server in each way that the present user can: root has three, an
// ordinary user one.
func TestEveryAccount(t *testing.T) {
	t.Run("as the current user", startsAndStops)
	if os.Geteuid() != 0 {
		return
	}
	t.Run("root in a folder closed to others", func(t *testing.T) {
		dir := t.TempDir()
		open(t, dir)
		startsAndStopsIn(t, filepath.Join(dir, "closed", "cluster"))
		info, err := os.Stat(filepath.Join(dir, "closed"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	})
	t.Run("as an ordinary user", runAsOrdinaryUser)
}

func TestFolderAccountCannotEnter(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o700))
	who := changedAccount(1, 1)
	if os.Geteuid() != 0 {
		who = currentAccount()
		require.NoError(t, os.Chmod(dir, 0))
		defer os.Chmod(dir, 0o700)
	}
	require.True(t, who.cannotEnter(dir))
}

func TestErrorNamesInaccessibleFolder(t *testing.T) { // without the capability
	if os.Geteuid() != 0 {
		who, err := chooseAccount(t.TempDir())
		require.NoError(t, err)
		require.NoError(t, who.own("/"), "an ordinary user keeps the account, and so owns its folders")
		return
	}
	capabilities = false
	defer func() { capabilities = true }()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o700))
	_, err := Start(t.Context(), Config{Dir: filepath.Join(dir, "cluster")})
	require.ErrorContains(t, err, "cannot enter the folder")
	require.ErrorContains(t, err, dir)
}

func startsAndStops(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	open(t, filepath.Join(dir, "cluster"))
	startsAndStopsIn(t, filepath.Join(dir, "cluster"))
}

func startsAndStopsIn(t *testing.T, dir string) {
	for range 2 {
		server, err := Start(t.Context(), Config{Dir: dir})
		require.NoError(t, err)
		conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
		require.NoError(t, err)
		require.NoError(t, conn.Close(t.Context()))
		require.NoError(t, server.Stop())
	}
}

// runAsOrdinaryUser runs this binary's tests of the exported API as an ordinary user, from a copy that this
// user can read.
func runAsOrdinaryUser(t *testing.T) {
	uid, gid, _, err := ordinaryUser()
	require.NoError(t, err)
	base, err := os.MkdirTemp("", "svc-postgres-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(base)) })
	require.NoError(t, os.Chown(base, int(uid), int(gid)))
	binary := filepath.Join(base, "postgres.test")
	duplicate(t, os.Args[0], binary)

	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^(TestStopAndStart|TestKillThen|TestKilledParentLeavesNoProcess|TestSecond)")
	cmd.Dir = base
	cmd.Env = append(os.Environ(), "TMPDIR="+base, "HOME="+base)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "no tests to run")
}

func duplicate(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}
