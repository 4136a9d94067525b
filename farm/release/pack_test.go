package release

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/filelock"
)

func TestPackingOlderReleaseKeepsLatest(t *testing.T) {
	t.Parallel()
	dir, first, second := t.TempDir(), newKey(t), newKey(t)
	packed(t, dir, "1.10.0", first)
	packed(t, dir, "1.9.0", second)
	packed(t, dir, "1.9.0", second) // once more
	r, err := NewFolder(dir, nil).Release()
	require.NoError(t, err)
	require.Equal(t, "1.10.0", r.Version)
	require.Len(t, r.Keys, 2, "the keys of both")
	require.ErrorIs(t, VerifyFolder(dir, publics(second)), ErrSignature)
	packed(t, dir, "1.10.1", second)
	require.NoError(t, VerifyFolder(dir, publics(second)))
}

// A release may get more platforms, but no platform another program.
func TestPackKeepsProgramsOfVersion(t *testing.T) {
	t.Parallel()
	dir, from, key := t.TempDir(), t.TempDir(), newKey(t)
	build := func(arch, text string) Build {
		path := filepath.Join(from, arch+text)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return Build{"linux", arch, path}
	}
	again := func(builds ...Build) error { return Pack(dir, Latest{Version: "1.2.3"}, builds, key) }
	require.NoError(t, again(build("amd64", "one")))
	require.NoError(t, again(build("arm64", "one"), build("amd64", "one")))
	for name, builds := range map[string][]Build{
		"another program": {build("amd64", "two"), build("arm64", "one")}, "fewer programs": {build("arm64", "one")},
	} {
		require.ErrorIs(t, again(builds...), ErrPacked, name)
		r, err := NewFolder(dir, nil).Release()
		require.NoError(t, err, name)
		require.Len(t, r.Files, 2, name)
	}
	require.NoError(t, Repack(dir, Latest{Version: "1.2.3"}, []Build{build("amd64", "two")}, key))
	require.NoError(t, VerifyFolder(dir, nil))
}

func TestPackRefuses(t *testing.T) {
	t.Parallel()
	dir, key := t.TempDir(), newKey(t)
	program := filepath.Join(t.TempDir(), "svc-runner")
	require.NoError(t, os.WriteFile(program, []byte("a program"), 0o755))
	build := Build{"linux", "amd64", program}
	for name, c := range map[string]struct {
		version string
		builds  []Build
	}{
		"no version":                {"", []Build{build}},
		"version leaves the folder": {"../1.2.3", []Build{build}},
		"incomplete version":        {"1.2", []Build{build}},
		"no builds":                 {"1.2.3", nil},
		"malformed platform":        {"1.2.3", []Build{{"linux", "amd/64", program}}},
		"repeated platform":         {"1.2.3", []Build{build, build}},
		"missing program":           {"1.2.3", []Build{{"linux", "amd64", filepath.Join(dir, "none")}}},
	} {
		require.Error(t, Pack(dir, Latest{Version: c.version}, c.builds, key), name)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			require.Equal(t, lockFile, e.Name(), name)
		}
	}
}

func TestFailedPackKeepsRelease(t *testing.T) {
	t.Parallel()
	dir, key := t.TempDir(), newKey(t)
	packed(t, dir, "1.2.3", key)
	broken := errors.New("broken")
	p := packer{true, func(from, to string) error {
		if filepath.Base(from) == "new" {
			return broken
		}
		return os.Rename(from, to)
	}}
	builds := []Build{{"linux", "amd64", filepath.Join(dir, KeysFile)}}
	require.ErrorIs(t, p.pack(dir, Latest{Version: "1.2.3"}, builds, key), broken)
	r, err := NewFolder(dir, nil).Release()
	require.NoError(t, err)
	require.Len(t, r.Files, 2)
	require.ErrorIs(t, p.pack(dir, Latest{Version: "1.2.4"}, builds, key), broken)
	require.NoError(t, VerifyFolder(dir, nil))
}

func TestConcurrentPacksLeaveValidFolder(t *testing.T) {
	t.Parallel()
	dir, from := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".pack-killed"), 0o700))
	program := filepath.Join(from, "program")
	require.NoError(t, os.WriteFile(program, make([]byte, 1<<20), 0o600))
	var all sync.WaitGroup
	for _, version := range []string{"1.2.3", "1.2.3", "1.2.4", "1.2.4"} {
		key := newKey(t)
		all.Go(func() {
			for {
				err := Repack(dir, Latest{Version: version}, []Build{{"linux", "amd64", program}}, key)
				if _, held := errors.AsType[*filelock.HeldError](err); !held {
					assert.NoError(t, err)
					return
				}
			}
		})
	}
	all.Wait()
	r, err := NewFolder(dir, nil).Release()
	require.NoError(t, err)
	require.Equal(t, "1.2.4", r.Version)
	require.Len(t, r.Keys, 4)
	left, err := filepath.Glob(filepath.Join(dir, ".pack-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
