package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/wire"
)

func TestPatterns(t *testing.T) {
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
		{"../x", "x", "y"}, // there is no folder above
		{"[", "", "[ a"},
	} {
		for name := range strings.FieldsSeq(c.yes) {
			require.True(t, matches(c.pattern, name), "%s %s", c.pattern, name)
		}
		for name := range strings.FieldsSeq(c.no) {
			require.False(t, matches(c.pattern, name), "%s %s", c.pattern, name)
		}
	}
}

func TestGatheringStaysInTheWorkingDirectory(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	work := filepath.Join(base, "work")
	require.NoError(t, os.MkdirAll(filepath.Join(work, "dist", "sub"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(work, ".git"), 0o700))
	for name, text := range map[string]string{"dist/b": "bb", "dist/a": "a", "dist/sub/c": "", ".git/config": "x", "../secret": "key"} {
		require.NoError(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o640))
	}
	for name, to := range map[string]string{"dist/link": "../../secret", "dist/absolute": filepath.Join(base, "secret"), "dist/folder": base, "dist/inside": "a"} {
		require.NoError(t, os.Symlink(to, filepath.Join(work, name)))
	}
	all := []wire.Artifact{{Name: "all", Paths: []string{"**"}}, {Name: "again", Paths: []string{"dist/a"}}, {Name: "none", Paths: []string{"x"}, Required: true}}
	m, missing, err := gather(work, filepath.Join(base, "one"), all, 100)
	require.NoError(t, err)
	require.Equal(t, []string{"none"}, missing)
	var names []string
	for _, f := range m.Files {
		names = append(names, f.Name+" "+f.Path)
	}
	require.Equal(t, []string{"all dist/a", "all dist/b", "all dist/sub/c", "again dist/a"}, names)
	require.Equal(t, manifestFile{ID: "f2", Name: "all", Path: "dist/b", Size: 2, ChunkBytes: chunkBytes, Mode: 0o640,
		SHA256: "3b64db95cb55c763391c707108489ae18b4112d783300de38e033b4c98c3deaf"}, m.Files[1])
	copied, err := os.ReadFile(filepath.Join(base, "one", "f2"))
	require.NoError(t, err)
	require.Equal(t, "bb", string(copied))

	_, _, err = gather(work, filepath.Join(base, "two"), all, 3)
	require.ErrorContains(t, err, "larger than a job's may be")
	for i := range maxFiles + 1 {
		require.NoError(t, os.WriteFile(filepath.Join(work, "dist", "n"+strings.Repeat("x", i%50)+string(rune('a'+i/50))), nil, 0o600))
	}
	_, _, err = gather(work, filepath.Join(base, "three"), all, 3000)
	require.ErrorIs(t, err, errTooMany)
}

func TestSources(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("a", 40)
	for _, s := range []wire.Source{{URL: "https://host/repo", Commit: commit}, {URL: "https://u:p@host/repo", Ref: "refs/heads/run/42"}} {
		require.NoError(t, checkSource(&s, "https"))
	}
	for _, s := range []wire.Source{
		{URL: "https://host/repo"}, {URL: "http://host/repo", Commit: commit}, {URL: "ext::sh", Commit: commit}, {URL: "file:///etc", Commit: commit},
		{URL: "--upload-pack=x", Commit: commit}, {URL: "https://host", Commit: "--all"}, {URL: "https://host", Commit: commit[:39]},
		{URL: "https://host", Ref: "--all"}, {URL: "https://host", Ref: "refs/heads/../x"}, {URL: "https://host", Ref: "main"}, {URL: "https://host", Ref: "refs/heads/a b"},
	} {
		require.Error(t, checkSource(&s, "https"), "%+v", s)
	}
	require.Equal(t, []string{"p-word", "u:p-word"}, sourceSecrets(&wire.Source{URL: "https://u:p-word@host/repo"}))
}
