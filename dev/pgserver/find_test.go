package pgserver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// useSources makes findPrograms try only these sources during a test.
func useSources(t *testing.T, list ...source) {
	t.Helper()
	before := sources
	sources = list
	t.Cleanup(func() { sources = before })
}

func failing(name string) source {
	return source{name, func(context.Context, search) ([]string, error) { return nil, errors.New("not in this test") }}
}

func TestErrorNamesEveryWayTried(t *testing.T) {
	t.Setenv("SVC_PG_BINDIR", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	nowhere := byGlob(filepath.Join(t.TempDir(), "*"))
	// The last source downloads from a fixed URL, whatever the environment.
	useSources(t, sources[0], sources[1], source{sources[2].name, nowhere}, failing(sources[3].name))

	_, err := Start(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "cluster")})
	for _, name := range []string{
		"SVC_PG_BINDIR: ", "PATH: ", "packages of Debian and Homebrew: ", "embedded-postgres: ",
	} {
		require.ErrorContains(t, err, name)
	}
}

func TestFirstWorkingWayIsUsedAndLogged(t *testing.T) {
	found, err := findPrograms(t.Context(), accountFor(t), 0, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Setenv("SVC_PG_BINDIR", found.bin)
	var log bytes.Buffer
	dir := t.TempDir()
	open(t, dir)
	server, err := Start(t.Context(), Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.NoError(t, server.Stop())
	require.Contains(t, log.String(), found.bin+" (by SVC_PG_BINDIR)")
	require.NotContains(t, log.String(), server.password)
}

func TestBrokenProgramsAreSkipped(t *testing.T) {
	broken := t.TempDir()
	for _, name := range []string{"initdb", "postgres"} {
		require.NoError(t, os.WriteFile(filepath.Join(broken, name), []byte("no program"), 0o755))
	}
	t.Setenv("SVC_PG_BINDIR", broken)
	found, err := findPrograms(t.Context(), accountFor(t), 0, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NotEqual(t, broken, found.bin)
}

func TestProgramsOfOtherMajorVersionAreSkipped(t *testing.T) {
	who := accountFor(t)
	found, err := findPrograms(t.Context(), who, 0, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	_, err = tryFolder(t.Context(), who, found.bin, found.major+1)
	require.ErrorContains(t, err, "cannot open the cluster")
}

func TestHighestVersionFirst(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"9", "15", "17"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, version, "bin"), 0o755))
	}
	dirs, err := byGlob(filepath.Join(root, "*", "bin"))(t.Context(), search{})
	require.NoError(t, err)
	require.Len(t, dirs, 3)
	require.Equal(t, filepath.Join(root, "17", "bin"), dirs[0])
	require.Equal(t, filepath.Join(root, "9", "bin"), dirs[2])
	require.Equal(t, 16, folderVersion("/opt/homebrew/opt/postgresql@16/bin"))
}

func TestCacheIsFilledOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "programs")
	require.ErrorContains(t, fillOnce(t.Context(), dir, func(string) error { return errors.New("broke off") }), "broke off")
	fills := 0
	fill := func(fresh string) error {
		fills++
		return os.WriteFile(filepath.Join(fresh, "file"), nil, 0o600)
	}
	require.NoError(t, fillOnce(t.Context(), dir, fill))
	require.NoError(t, fillOnce(t.Context(), dir, fill))
	require.Equal(t, 1, fills)
	require.FileExists(t, filepath.Join(dir, "file"))
}

// open lets the ordinary user as which root runs programs enter a folder of t.
func open(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
}

func accountFor(t *testing.T) account {
	t.Helper()
	dir := t.TempDir()
	open(t, dir)
	who, err := chooseAccount(dir)
	require.NoError(t, err)
	return who
}
