package pgserver_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/dev/pgserver"
)

// helperFolder is an environment variable that tests set for a child process: the folder in which it
// starts a server.
const helperFolder = "POSTGRES_TEST_FOLDER"

// TestHelperParent is the parent that is killed. Run by itself it only starts and stops a server.
func TestHelperParent(t *testing.T) {
	dir := os.Getenv(helperFolder)
	if dir == "" {
		start(t, pgserver.Config{Dir: folder(t)})
		return
	}
	server, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ready"), []byte(server.URL("postgres")+"\n"), 0o600))
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed
}

func TestKilledParentLeavesNoServer(t *testing.T) {
	dir := folder(t)
	parent := runTest(t, os.Args[0], "TestHelperParent", helperFolder+"="+dir)
	_, err := parent.StdinPipe() // never closed: the helper waits
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	connect(t, awaitLine(t, filepath.Join(dir, "ready"))).Close(t.Context())
	require.NotEmpty(t, processes(t, dir))

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	// At once, while the old server is still ending.
	server := start(t, pgserver.Config{Dir: dir})
	require.Equal(t, "1", value(t, server, "select '1'"))
	require.NoError(t, server.Stop())
	require.Empty(t, processes(t, dir))
}

func TestKilledParentLeavesNoProcess(t *testing.T) {
	dir := folder(t)
	parent := runTest(t, os.Args[0], "TestHelperParent", helperFolder+"="+dir)
	_, err := parent.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	awaitLine(t, filepath.Join(dir, "ready"))
	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	eventually(t, "all processes end", func() bool { return len(processes(t, dir)) == 0 })
}

func TestServerHasItsOwnProcessGroup(t *testing.T) {
	dir := folder(t)
	start(t, pgserver.Config{Dir: dir})
	group, err := syscall.Getpgid(postmaster(t, dir))
	require.NoError(t, err)
	require.NotEqual(t, syscall.Getpgrp(), group)
}
