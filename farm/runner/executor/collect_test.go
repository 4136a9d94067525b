package executor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/artifacts"
	"svc/farm/wire"
)

func TestArtifactPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		yes, no string
	}{
		{"dist/**", "dist/a dist/b/c", "dist other/dist/a"},
		{"dist", "dist dist/a dist/b/c", "distance other/dist"},
		{"*.txt", "a.txt", "b/a.txt a.txtx"},
		{"**/*.txt", "a.txt b/a.txt b/c/a.txt", "a.md"},
		{"a/**/z", "a/z a/b/z a/b/c/z", "a/b z"},
		{"**", "a a/b", ""},
		{"./dist/", "dist/a", "a"},
		{"a?c", "abc", "ac abbc a/c"},
		{"**/**/*.txt", "a.txt b/a.txt b/c/a.txt", "a.md"},
		{"a/**/**", "a/b a/b/c", "a b/a"},
		{"**/a/**/b/**", "a/b/c x/a/y/b/z", "a/b b/a a/c"},
		{"../x", "x", "y"}, // there is no folder above
		{"[", "", "[ a"},
	} {
		for name := range strings.FieldsSeq(c.yes) {
			require.True(t, newPattern(c.pattern).matches(strings.Split(name, "/")), "%s %s", c.pattern, name)
		}
		for name := range strings.FieldsSeq(c.no) {
			require.False(t, newPattern(c.pattern).matches(strings.Split(name, "/")), "%s %s", c.pattern, name)
		}
	}
}

func TestGatherStaysInWorkingDirectory(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	work := filepath.Join(base, "work")
	require.NoError(t, os.MkdirAll(filepath.Join(work, "dist", "sub"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(work, ".git"), 0o700))
	for name, text := range map[string]string{"dist/b": "bb", "dist/a": "a", "dist/sub/c": "", ".git/config": "x", "../secret": "key"} {
		require.NoError(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o640))
	}
	for name, to := range map[string]string{
		"dist/link": "../../secret", "dist/absolute": filepath.Join(base, "secret"), "dist/folder": base, "dist/git": "../.git/config",
		"dist/inside": "a", "dist/own": filepath.Join(work, "dist/b"), "dist/twice": "own", "dist/behind": "sub", "dist/sub/up": "../../dist",
		"dist/nothing": "no", "dist/circle": "circle", "broken": "no", ".svc-out": "dist",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(work, name)))
	}
	all := []wire.Artifact{{Name: "all", Paths: []string{"**"}}, {Name: "again", Paths: []string{"dist/a"}},
		{Name: "none", Paths: []string{"x"}, Required: true}}
	m, missing, leftOut, err := gather(t.Context(), work, work, filepath.Join(base, "one"), all, 100)
	require.NoError(t, err)
	require.Equal(t, []string{"none"}, missing)
	require.Equal(t, []wire.LeftOut{
		{Path: ".svc-out", Reason: "link_not_followed"}, {Path: "broken", Reason: "link_broken"},
		{Path: "dist/absolute", Reason: "link_outside"}, {Path: "dist/behind/up", Reason: "link_loop"},
		{Path: "dist/circle", Reason: "link_broken"}, {Path: "dist/folder", Reason: "link_outside"}, {Path: "dist/git", Reason: "link_outside"},
		{Path: "dist/link", Reason: "link_outside"}, {Path: "dist/nothing", Reason: "link_broken"},
		{Path: "dist/sub/up", Reason: "link_loop"},
	}, leftOut.files)
	var names []string
	for _, f := range m.Files {
		names = append(names, f.Name+" "+f.Path)
	}
	require.Equal(t, []string{"all dist/a", "all dist/b", "all dist/behind/c", "all dist/inside", "all dist/own", "all dist/sub/c",
		"all dist/twice", "again dist/a"}, names)
	require.Equal(t, ManifestFile{ID: "f2", Name: "all", Path: "dist/b", Size: 2, ChunkBytes: chunkBytes, Mode: 0o640,
		SHA256: "3b64db95cb55c763391c707108489ae18b4112d783300de38e033b4c98c3deaf"}, m.Files[1])
	copied, err := os.ReadFile(filepath.Join(base, "one", "f2"))
	require.NoError(t, err)
	require.Equal(t, "bb", string(copied))

	behind := []wire.Artifact{{Name: "a", Paths: []string{"dist/folder/*.txt"}}}
	_, _, left, err := gather(t.Context(), work, work, filepath.Join(base, "some"), behind, 9)
	require.NoError(t, err)
	require.Equal(t, []wire.LeftOut{{Path: "dist/folder", Reason: "link_outside"}}, left.files, "the way to what is wanted")
	_, _, _, err = gather(t.Context(), work, work, filepath.Join(base, "two"), all, 3)
	require.ErrorContains(t, err, "larger than a job's may be")
	for i := range wire.MaxFiles + 1 {
		require.NoError(t, os.WriteFile(filepath.Join(work, "dist", "n"+strings.Repeat("x", i%50)+string(rune('a'+i/50))), nil, 0o600))
	}
	_, _, _, err = gather(t.Context(), work, work, filepath.Join(base, "three"), all, 3000)
	require.ErrorIs(t, err, errTooMany)
}

// Files that the service would refuse are left out, and the others are kept.
func TestGatherLeavesOutRefusedFiles(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	write := func(name string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(work, name), []byte(name), 0o600))
	}
	for _, name := range []string{
		"dist/a:b.log", "dist/README", "dist/Readme", "dist/fine", "dist/con.txt", "dist/\xff", "dist/line\nbreak", "dist/dir/x", "dist/DIR",
		"bad/a?b", "docs/readme",
	} {
		write(name)
	}
	want := []wire.Artifact{
		{Name: "dist", Paths: []string{"dist"}, Required: true}, {Name: "bad", Paths: []string{"bad"}, Required: true},
		{Name: "Dist", Paths: []string{"**"}},
	}
	m, missing, leftOut, err := gather(t.Context(), work, work, filepath.Join(t.TempDir(), "files"), want[:2], 1<<20)
	require.NoError(t, err)
	require.Equal(t, []string{"bad"}, missing)
	require.Equal(t, []string{"dist/DIR", "dist/README", "dist/fine"}, paths(m), "of two that may not lie beside each other the first")
	require.Equal(t, 7, leftOut.count)
	require.Contains(t, leftOut.files, wire.LeftOut{Path: "dist/Readme", Reason: "path_collision"})
	m.Epoch = 1
	require.NoError(t, manifestError(m))

	for i := range wire.MaxLeftOut {
		write(fmt.Sprintf("bad/a?b%d", i))
	}
	// Two names that some system takes for one.
	m, missing, leftOut, err = gather(t.Context(), work, work, filepath.Join(t.TempDir(), "files"), want, 1<<20)
	require.NoError(t, err)
	require.Equal(t, []string{"bad"}, missing)
	require.Equal(t, []string{"dist/DIR", "dist/README", "dist/fine", "docs/readme"}, paths(m))
	require.Len(t, leftOut.files, wire.MaxLeftOut)
	require.Greater(t, leftOut.count, wire.MaxLeftOut)
	m.Epoch = 1
	require.NoError(t, manifestError(m))
}

// A manifest never exceeds the size that the service reads.
func TestGatherLimitsManifestSize(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	long := strings.Repeat("&", 200) // each of them is six bytes of JSON
	deep := filepath.Join(work, long, long, long, long)
	require.NoError(t, os.MkdirAll(deep, 0o700))
	for i := range 250 {
		require.NoError(t, os.WriteFile(filepath.Join(deep, fmt.Sprint(i)), nil, 0o600))
	}
	all := []wire.Artifact{{Name: "all", Paths: []string{"**"}}}
	_, _, _, err := gather(t.Context(), work, work, filepath.Join(t.TempDir(), "files"), all, 1<<20)
	require.ErrorIs(t, err, errTooMany)
	for i := range 50 {
		require.NoError(t, os.Remove(filepath.Join(deep, fmt.Sprint(i))))
	}
	m, _, _, err := gather(t.Context(), work, work, filepath.Join(t.TempDir(), "files"), all, 1<<20)
	require.NoError(t, err)
	require.Len(t, m.Files, 200)
	m.Epoch = 1
	require.NoError(t, manifestError(m))
}

func paths(m Manifest) (list []string) {
	for _, f := range m.Files {
		list = append(list, f.Path)
	}
	return list
}

// manifestError returns the service's error about a manifest.
func manifestError(m Manifest) error {
	text, err := json.Marshal(m)
	if err == nil {
		_, err = artifacts.ReadManifest(bytes.NewReader(text), 1<<20)
	}
	return err
}

func TestSources(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("a", 40)
	for _, s := range []wire.Source{{URL: "https://host/repo", Commit: commit}, {URL: "https://u:p@host/repo", Ref: "refs/heads/run/42"},
		{URL: "https://host/repo", Ref: "refs/heads/feature/#123-fix"}, {URL: "https://host/repo", Ref: "refs/heads/café"},
		{URL: "https://host/repo", Commit: strings.ToUpper(commit)}} {
		require.NoError(t, checkSource(t.Context(), &s, "https"))
	}
	for _, s := range []wire.Source{
		{URL: "https://host/repo"}, {URL: "http://host/repo", Commit: commit}, {URL: "ext::sh", Commit: commit},
		{URL: "file:///etc", Commit: commit},
		{URL: "--upload-pack=x", Commit: commit}, {URL: "https://host", Commit: "--all"}, {URL: "https://host", Commit: commit[:39]},
		{URL: "https://host", Ref: "--all"}, {URL: "https://host", Ref: "refs/heads/../x"}, {URL: "https://host", Ref: "main"},
		{URL: "https://host", Ref: "refs/heads/a b"}, {URL: "https://host", Ref: "refs/heads/a//b"},
		{URL: "https://host", Ref: "refs/heads/foo.lock"}, {URL: "https://host", Ref: "refs/heads/a:refs/heads/b"},
	} {
		require.Error(t, checkSource(t.Context(), &s, "https"), "%+v", s)
	}
	for address, want := range map[string][]string{
		"https://u:p-word@host/repo": {"p-word", "u:p-word"}, "https://t-oken@host/repo": {"t-oken"}, "https://t-oken:@host/repo": {"t-oken"},
		"https://host/repo": nil,
	} {
		require.Equal(t, want, urlSecrets(address), address)
	}
}
