package bare

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// imported makes a repository with files on the branch main, and returns its commit.
func imported(t *testing.T, files map[string][]byte) (Repo, string) {
	t.Helper()
	r, err := Create(t.Context(), filepath.Join(t.TempDir(), "acme", "web.git"), "main")
	require.NoError(t, err)
	_, err = r.Ref(t.Context(), "refs/heads/main")
	require.ErrorIs(t, err, ErrNotFound)
	first := First{Files: files, Author: "Ada Lind <ada@acme.example>", At: time.Unix(1_700_000_000, 0), Message: "Begin"}
	require.NoError(t, r.Import(t.Context(), "main", first))
	id, err := r.Resolve(t.Context(), "main")
	require.NoError(t, err)
	return r, id
}

// on imports other files to a branch of their own, and commits them on a parent.
func (r Repo) on(t *testing.T, branch, parent string, files map[string][]byte) string {
	t.Helper()
	by := Signature{"Ada Lind", "ada@acme.example", time.Unix(1_700_000_500, 0).UTC()}
	aside := First{Files: files, Author: "Ada Lind <ada@acme.example>", At: by.At, Message: "x"}
	require.NoError(t, r.Import(t.Context(), branch+"-files", aside))
	tree, err := r.Ref(t.Context(), "refs/heads/"+branch+"-files^{tree}")
	require.NoError(t, err)
	id, err := r.Write(t.Context(), Commit{
		Tree: tree, Parents: []string{parent}, Author: by, Committer: by, Message: "Change " + branch + "\n\nWhy.\n",
	})
	require.NoError(t, err)
	require.NoError(t, r.Update(t.Context(), "refs/heads/"+branch, Zero, id))
	return id
}

func TestDiff(t *testing.T) {
	t.Parallel()
	long := []byte(strings.Repeat("a line\n", 20))
	r, base := imported(t, map[string][]byte{"gone.txt": []byte("1\n2\n"), "old name.txt": long, "same": []byte("x"), "é": []byte("1\n")})
	head := r.on(t, "work", base, map[string][]byte{
		"new name.txt": append(bytes.Clone(long), "more\n"...), "same": []byte("x"), "é": []byte("2\ndiff --git a/x b/x\n"),
		"binary": {0, 1, 2}, "empty": {},
	})
	changes, err := r.Diff(t.Context(), base, head)
	require.NoError(t, err)
	type short struct {
		path, old, status string
		added, removed    int
		patch             bool
	}
	got := map[string]short{}
	for _, c := range changes {
		got[c.Path] = short{c.Path, c.Old, c.Status, c.Added, c.Removed, c.Patch != ""}
		require.True(t, IsID(c.ID) && c.ID != Zero, c.Path)
	}
	require.Equal(t, map[string]short{
		"binary":       {"binary", "", "added", 0, 0, false},
		"empty":        {"empty", "", "added", 0, 0, false},
		"gone.txt":     {"gone.txt", "", "removed", 0, 2, true},
		"new name.txt": {"new name.txt", "old name.txt", "renamed", 1, 0, true},
		"é":            {"é", "", "modified", 2, 1, true},
	}, got)
	whole, err := r.Diff(t.Context(), "", base)
	require.NoError(t, err)
	require.Len(t, whole, 4)

	log, err := r.Log(t.Context(), 10, head, "^"+base)
	require.NoError(t, err)
	require.Len(t, log, 1)
	require.Equal(t, "Change work", log[0].Title())
	require.Equal(t, []string{base}, log[0].Parents)
	files, err := r.Files(t.Context(), head, "")
	require.NoError(t, err)
	require.Len(t, files, 5)
	text, err := r.File(t.Context(), base, "gone.txt")
	require.NoError(t, err)
	require.Equal(t, "1\n2\n", string(text))
	_, err = r.File(t.Context(), head, "gone.txt")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestMergeAndCompareAndSwap(t *testing.T) {
	t.Parallel()
	r, base := imported(t, map[string][]byte{"a": []byte("1\n"), "b": []byte("1\n")})
	one := r.on(t, "one", base, map[string][]byte{"a": []byte("2\n"), "b": []byte("1\n")})
	two := r.on(t, "two", base, map[string][]byte{"a": []byte("1\n"), "b": []byte("2\n")})
	three := r.on(t, "three", base, map[string][]byte{"a": []byte("3\n"), "b": []byte("1\n")})
	tree, err := r.Merged(t.Context(), one, two)
	require.NoError(t, err)
	require.True(t, IsID(tree))
	_, err = r.Merged(t.Context(), one, three)
	require.ErrorIs(t, err, ErrConflict)

	require.ErrorIs(t, r.Update(t.Context(), "refs/heads/main", one, two), ErrMoved)
	require.NoError(t, r.Update(t.Context(), "refs/heads/main", base, one))
	require.ErrorIs(t, r.Update(t.Context(), "refs/heads/two", one, Zero), ErrMoved)
	require.NoError(t, r.Update(t.Context(), "refs/heads/two", two, Zero))
	contained, err := r.Contains(t.Context(), one, base)
	require.NoError(t, err)
	require.True(t, contained)
	contained, err = r.Contains(t.Context(), base, one)
	require.NoError(t, err)
	require.False(t, contained)
}

func TestNamesOfBranches(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"main": true, "run/7": true, "a.b_c-d+1": true, "": false, "-x": false, "/x": false, "x/": false, "a..b": false, "a b": false,
		"a\nb":   false,
		"x.lock": false, ".x": false, "a/.b": false, "a~1": false, "a^": false, "a:b": false, "@{1}": false,
	} {
		require.Equal(t, want, IsBranch(name), name)
	}
}
