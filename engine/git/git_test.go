package git

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
	"svc/test/githost"
	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// open returns mirrors, and a repository at a host with a remote for it.
func open(t *testing.T) (*Mirrors, *githost.Repository, Remote) {
	t.Helper()
	repo := githost.Start(t).Create(t, "acme/web")
	m, err := Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m, repo, Remote{URL: repo.URL, Token: githost.Token}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckVersion(t.Context()))
}

// Nothing of the user's is asked, and nothing asks the user.
func TestEnvironmentIsClosed(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[user]\n\tname = Somebody\n"), 0o600))
	t.Setenv("HOME", home)
	t.Setenv("GIT_AUTHOR_NAME", "Somebody else")
	t.Setenv("GIT_CONFIG_PARAMETERS", "'user.email=x@example.org'")
	text, err := run(t.Context(), command{args: []string{"config", "--list", "--name-only"}})
	require.NoError(t, err)
	require.NotContains(t, text, "user.")
	_, err = run(t.Context(), command{args: []string{"var", "GIT_AUTHOR_IDENT"}})
	require.Error(t, err)
}

func TestCommandsAreBounded(t *testing.T) {
	t.Parallel()
	_, err := run(t.Context(), command{args: []string{"help", "-a"}, max: 10})
	require.ErrorIs(t, err, ErrOutput)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("too late"))
	defer cancel()
	began := time.Now()
	_, err = run(ctx, command{args: []string{"-c", "alias.wait=!sleep 60", "wait"}})
	require.ErrorContains(t, err, "too late")
	require.Less(t, time.Since(began), 20*time.Second, "the process below git ends too")
}

// The change of a job leaves nothing in the mirror.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	m, repo, remote := open(t)
	base := repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	objects := func() (n int) {
		require.NoError(t, filepath.WalkDir(filepath.Join(m.path("r"), "objects"), func(_ string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return err
		}))
		return n
	}
	require.NoError(t, m.Work(t.Context(), "r", remote, func(r *Repository) error { return r.Commit(t.Context(), base) }))
	before := objects()
	change := filepath.Join(t.TempDir(), "change.diff")
	const diff = "diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+x\n"
	require.NoError(t, Save(change, strings.NewReader(diff)))
	var id string
	require.NoError(t, m.Work(t.Context(), "r", remote, func(r *Repository) error {
		tree, err := r.Apply(t.Context(), base, change)
		if err != nil {
			return err
		}
		id, err = r.Write(t.Context(), Commit{Tree: tree, Parents: []string{base}, Message: "x", Author: "A <a@b>", At: time.Unix(1, 0)})
		if err != nil {
			return err
		}
		return r.Push(t.Context(), Update{Branch: "run/1", To: id})
	}))
	require.Equal(t, id, repo.Head(t, "run/1"))
	require.Equal(t, before, objects())
	require.NoError(t, m.Work(t.Context(), "r", remote, func(r *Repository) error {
		require.False(t, r.Has(t.Context(), id))
		head, err := r.Branch(t.Context(), "run/1")
		require.Equal(t, id, head)
		require.True(t, r.Has(t.Context(), id))
		return err
	}))
	steps, err := os.ReadDir(filepath.Join(m.Folder(), "steps"))
	require.NoError(t, err)
	require.Empty(t, steps)
}

func TestManyPacksAreJoined(t *testing.T) {
	t.Parallel()
	m, repo, remote := open(t)
	m.packs = 3
	for range 9 {
		id := repo.Commit(t, "main", "one more", githost.Files{"a": "1\n"})
		require.NoError(t, m.Work(t.Context(), "r", remote, func(r *Repository) error {
			got, err := r.Branch(t.Context(), "main")
			require.Equal(t, id, got)
			return err
		}))
		packs, err := filepath.Glob(filepath.Join(m.path("r"), "objects/pack/*.pack"))
		require.NoError(t, err)
		require.LessOrEqual(t, len(packs), m.packs+1)
	}
}

func TestProcessesHaveFoldersOfTheirOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, err := Open(dir)
	require.NoError(t, err)
	two, err := Open(dir)
	require.NoError(t, err)
	require.NotEqual(t, one.Folder(), two.Folder())
	require.NoError(t, one.Close())
	again, err := Open(dir)
	require.NoError(t, err)
	require.Equal(t, one.Folder(), again.Folder())
	require.NoError(t, again.Close())
	require.NoError(t, two.Close())
}

func TestTextHasEveryLine(t *testing.T) {
	t.Parallel()
	m, repo, remote := open(t)
	base := repo.Commit(t, "main", "first", githost.Files{"a b": "one\n-- a/x\ntwo\n", "ä\t\"q\"": "x\n", "gone": "1\n", "bin": "\x00"})
	head := repo.Commit(t, "main", "second", githost.Files{
		"a b": "one\n++ b/y\n@@ -1 +1 @@\n", "ä\t\"q\"": "y\n", "gone": githost.Gone, "bin": "\x00\x00",
	})
	var got []string
	var changes []Change
	require.NoError(t, m.Work(t.Context(), "r", remote, func(r *Repository) error {
		if err := r.Commit(t.Context(), head); err != nil {
			return err
		}
		var err error
		if changes, err = r.Difference(t.Context(), base, head); err != nil {
			return err
		}
		return r.Text(t.Context(), base, head, func(path string, added bool, line string) {
			got = append(got, path+map[bool]string{true: "+", false: "-"}[added]+line)
		})
	}))
	require.Equal(t, []string{
		"a b--- a/x", "a b-two", "a b+++ b/y", "a b+@@ -1 +1 @@", "gone-1", "ä\t\"q\"-x", "ä\t\"q\"+y",
	}, got)
	var paths []string
	for _, c := range changes {
		paths = append(paths, c.Path)
		require.Equal(t, c.Path == "bin", c.Binary)
	}
	require.Equal(t, []string{"a b", "bin", "gone", "ä\t\"q\""}, paths)
	require.Equal(t, []int{2, 2}, []int{changes[0].Added, changes[0].Removed})
	require.True(t, changes[2].Gone())
}

func TestDeclaredBinarySizes(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"":                           true,
		"literal 10\n":               true,
		"+literal 99999999999\n":     true,
		"literal 67108864\n":         true,
		"literal 67108865\n":         false,
		"delta 99999999999999999999": false,
		"literal x\n":                false,
		strings.Repeat("y", 9000) + "\nliteral 99999999999": false,
		strings.Repeat("y", 9000):                           true,
		strings.Repeat("literal 7000000\n", 9):              true,
		strings.Repeat("literal 7000000\n", 10):             false,
	} {
		err := checkBinaries(strings.NewReader(text))
		require.Equal(t, ok, err == nil, "%.40q", text)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"main": true, "run/01K": true, "svc-lane/1": true, "a.b": true, "feature/x@y": true,
		"": false, "-x": false, "a..b": false, "/a": false, "a/": false, "a b": false, "a.lock": false, "a/.b": false, "a~1": false,
		"a:b": false, "@{x": false, "a@{1}": false, "a*": false, "a\nb": false, ".a": false,
	} {
		require.Equal(t, ok, ValidBranch(name), name)
	}
	for author, ok := range map[string]bool{
		"A B <a@b>": true, "A": false, "<a@b>": false, "A <>": false, "A <a@b> x": false, "A\n <a@b>": false,
	} {
		_, _, valid := parseAuthor(author)
		require.Equal(t, ok, valid, author)
	}
}

// Git connects to the addresses that were checked, whatever the name leads to by then.
func TestRemoteIsPinned(t *testing.T) {
	t.Parallel()
	r := Remote{URL: "https://git.example.org:8443/x.git", Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		require.Equal(t, "git.example.org", host)
		return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}, nil
	}}
	env, err := r.environment(t.Context())
	require.NoError(t, err)
	require.Contains(t, strings.Join(env, "\n"), "=git.example.org:8443:192.0.2.1,[2001:db8::1]")

	dead := Remote{URL: "https://git.example.org:1/x.git", Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}}
	_, err = dead.Heads(t.Context(), "main") // a refused connection, not a name that does not resolve
	var f *client.Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, client.CodeHostAway, f.Code)
	require.NotContains(t, f.Message, "resolve")
}

// A mirror that nobody has used for long is removed, also that of a process that has ended. It is fetched again when needed.
func TestIdleMirrorsAreRemoved(t *testing.T) {
	t.Parallel()
	m, repo, remote := open(t)
	repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	use := func(m *Mirrors, id string) {
		require.NoError(t, m.Work(t.Context(), id, remote, func(*Repository) error { return nil }))
	}
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	other, err := Open(filepath.Dir(m.folder))
	require.NoError(t, err)
	for _, id := range []string{"used", "idle"} {
		use(m, id)
		use(other, id)
	}
	long := time.Now().Add(-8 * 24 * time.Hour)
	for _, m := range []*Mirrors{m, other} {
		require.NoError(t, os.Chtimes(m.path("idle"), long, long))
	}
	week := time.Now().Add(-7 * 24 * time.Hour)
	require.NoError(t, m.RemoveIdle(t.Context(), week))
	require.Equal(t, []bool{true, false}, []bool{exists(m.path("used")), exists(m.path("idle"))})
	require.True(t, exists(other.path("idle")), "its process runs")
	require.NoError(t, other.Close())
	require.NoError(t, m.RemoveIdle(t.Context(), week))
	require.Equal(t, []bool{true, false}, []bool{exists(other.path("used")), exists(other.path("idle"))})
	use(m, "idle")
	require.True(t, exists(m.path("idle")))
}
