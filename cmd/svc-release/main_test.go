package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/release"
)

func TestPacksSignedRelease(t *testing.T) {
	dir := t.TempDir()
	releases, key := filepath.Join(dir, "releases"), filepath.Join(dir, "data", "release.key")
	program := filepath.Join(dir, "svc-runner")
	require.NoError(t, os.WriteFile(program, []byte("program"), 0o600))
	for range 2 { // with a new key, then with the same key
		var out bytes.Buffer
		require.NoError(t, run([]string{"-dir", releases, "-key", key, "linux/amd64=" + program, "darwin/arm64=" + program}, &out, time.Now()))
		require.Contains(t, out.String(), release.Version)
		r, err := release.NewFolder(releases, nil).Release()
		require.NoError(t, err)
		require.Equal(t, release.Version, r.Version)
		require.Equal(t, "svc-farm.v1", r.MinProtocol)
		require.Equal(t, []string{"svc-runner_darwin_arm64.gz", "svc-runner_linux_amd64.gz"}, r.Files)
		require.Len(t, r.Keys, 1)
	}
}

// A machine tells releases apart by their versions alone.
func TestOtherProgramsNeedAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "svc-runner")
	pack := func(text string, flags ...string) error {
		require.NoError(t, os.WriteFile(program, []byte(text), 0o600))
		args := append([]string{"-dir", filepath.Join(dir, "releases"), "-key", filepath.Join(dir, "key")}, flags...)
		var out bytes.Buffer
		return run(append(args, "linux/amd64="+program), &out, time.Now())
	}
	require.NoError(t, pack("one"))
	err := pack("two")
	require.ErrorIs(t, err, release.ErrPacked)
	require.ErrorContains(t, err, "raise the version in farm/release, or use -replace")
	require.NoError(t, pack("one"))
	require.NoError(t, pack("two", "-replace"))
	require.NoError(t, pack("two"))
}

func TestRefusesUnpackablePrograms(t *testing.T) {
	dir := t.TempDir()
	place := []string{"-dir", filepath.Join(dir, "releases"), "-key", filepath.Join(dir, "key")}
	for _, args := range [][]string{
		nil, place, {"-dir", dir, "linux/amd64=x"}, append(place, "linux=x"), append(place, "linux/amd64"), append(place, "linux/amd64="),
		append(place, "linux/amd64="+filepath.Join(dir, "none")), append(place, "-what"),
	} {
		var out bytes.Buffer
		require.Error(t, run(args, &out, time.Now()), args)
	}
	var out bytes.Buffer
	require.ErrorIs(t, run([]string{"-help"}, &out, time.Now()), flag.ErrHelp)
	require.Contains(t, out.String(), "OS/ARCH=PROGRAM")
}
