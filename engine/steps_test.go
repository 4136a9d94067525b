package engine

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/engine/client"
	"svc/test/githost"
)

// A bench is an engine with a code host that is git alone.
type bench struct {
	client.Client
	steps *Steps
	host  *githost.Host
	repo  *githost.Repository
	step  client.Step
	log   *lockedBuffer
}

// A lockedBuffer can be read while somebody logs.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{host: githost.Start(t), log: &lockedBuffer{}}
	b.repo = b.host.Create(t, "acme/web")
	var err error
	log := slog.New(slog.NewTextHandler(b.log, nil))
	b.steps, err = OpenSteps(t.Context(), Config{Dir: t.TempDir(), AllowLocal: true}, log)
	require.NoError(t, err)
	b.steps.spacing = 0
	s := httptest.NewServer(NewHandler(secret, "1.2.3", b.steps, log))
	t.Cleanup(func() {
		s.Close()
		require.NoError(t, b.steps.Close())
		require.NotContains(t, b.log.String(), githost.Token)
	})
	u, err := config.ParseURL(s.URL)
	require.NoError(t, err)
	b.Client = client.Client{URL: u, Secret: secret, HTTP: s.Client()}
	b.step = client.Step{Workspace: "w1", Run: "r1", Seconds: 60, Repository: client.Repository{
		ID: "repo1", Kind: "git", Name: "acme/web", Clone: b.repo.URL, Credential: client.Credential{Token: githost.Token},
	}}
	return b
}

func requireCode(t *testing.T, err error, class client.Class, code string) client.Failure {
	t.Helper()
	var f *client.Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, code, f.Code, f.Message)
	require.Equal(t, class, f.Class, f.Message)
	require.NotContains(t, f.Message, githost.Token)
	return *f
}

var at = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

const author = "Loop <loop@example.org>"

// change returns a diff against base, made in another repository as a job makes it.
func (b *bench) change(t *testing.T, base string, files githost.Files) string {
	t.Helper()
	b.repo.CommitOn(t, "scratch", base, "scratch", files)
	diff := b.repo.Diff(t, base, b.repo.Head(t, "scratch"))
	b.repo.Git(t, "update-ref", "-d", "refs/heads/scratch")
	return diff
}

func commitInput(base string) client.CommitInput {
	return client.CommitInput{Parent: base, Branch: "run/1", Message: "Fix it\n\nRun: r1", Author: author, At: at}
}

// committed makes a run's branch with files.
func (b *bench) committed(t *testing.T, base string, files githost.Files) client.CommitResult {
	t.Helper()
	return b.commit(t, commitInput(base), b.change(t, base, files))
}

func TestCommitIsPushedOnceHoweverOften(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"README.md": "one\n", "old.txt": "gone soon\n"})
	change := b.change(t, base, githost.Files{"README.md": "one\ntwo\n", "new.bin": "\x00\x01\x02", "old.txt": githost.Gone})
	in := commitInput(base)

	first := b.commit(t, in, change)
	require.Equal(t, first.Head, b.repo.Head(t, "run/1"))
	require.Equal(t, 3, first.Total)
	require.Equal(t, client.FileChange{Path: "README.md", Change: "modified", Added: 1}, first.Files[0])
	require.Equal(t, "added", first.Files[1].Change)
	require.Equal(t, "removed", first.Files[2].Change)
	require.Equal(t, "Loop|loop@example.org|1795867200|Fix it", b.repo.Git(t, "log", "-1", "--format=%an|%ae|%ct|%s", "run/1"))

	second := b.commit(t, in, change)
	require.Equal(t, first, second)

	// Another engine, without a copy of anything.
	other := newBench(t)
	other.step.Repository.Clone = b.repo.URL
	third := other.commit(t, in, change)
	require.Equal(t, first, third)
	require.Equal(t, "1", b.repo.Git(t, "rev-list", "--count", base+"..run/1"))
}

func TestCommitRefusesAMovedBranch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	person := b.repo.CommitOn(t, "run/1", base, "by a person", githost.Files{"b": "1\n"})
	change := b.change(t, base, githost.Files{"a": "2\n"})
	in := commitInput(base)
	_, err := b.tryCommit(in, change)
	requireCode(t, err, client.Permanent, client.CodeHeadMoved)
	in.Expected = base
	_, err = b.tryCommit(in, change)
	requireCode(t, err, client.Permanent, client.CodeHeadMoved)
	require.Equal(t, person, b.repo.Head(t, "run/1"))

	in.Expected = person
	moved := b.commit(t, in, change)
	require.Equal(t, moved.Head, b.repo.Head(t, "run/1"))
}

// The change of a checkout without history applies to the copy of the engine, which has it.
func TestR12ChangeOfAShallowCheckoutApplies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	files, changed := githost.Files{}, githost.Files{}
	for i := range 300 {
		name := "dir/file" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
		files[name], changed[name] = "one\n", "two\n"
	}
	b.repo.Commit(t, "main", "first", githost.Files{"before": "1\n"})
	base := b.repo.Commit(t, "main", "second", files)
	clone := t.TempDir()
	b.repo.Git(t, "clone", "--quiet", "--depth=1", "--branch=main", "file://"+b.repo.Dir, clone)
	work := &githost.Repository{Dir: clone}
	work.CommitOn(t, "work", base, "work", changed)
	diff := work.Diff(t, base, work.Head(t, "work"))

	got := b.commit(t, commitInput(base), diff)
	require.Equal(t, work.Git(t, "rev-parse", "work^{tree}"), got.Tree)
	require.Equal(t, len(files), got.Total)
}

func TestR29NoChangeAndEmptyRepository(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	probed := b.probe(t, client.ProbeInput{})
	require.False(t, probed.OK)
	require.Equal(t, "empty", probed.Checks[len(probed.Checks)-1].ID)
	require.NotEmpty(t, probed.Checks[len(probed.Checks)-1].Remedy)
	_, err := b.tryIssue(client.IssueInput{Branch: "main"})
	requireCode(t, err, client.Permanent, client.CodeEmpty)

	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	_, err = b.tryIssue(client.IssueInput{Branch: "other"})
	requireCode(t, err, client.Permanent, client.CodeMissingCommit)
	_, err = b.tryCommit(commitInput(base), "")
	requireCode(t, err, client.Permanent, client.CodeNoChange)
	modeOnly := "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+1\n"
	_, err = b.tryCommit(commitInput(base), modeOnly)
	requireCode(t, err, client.Permanent, client.CodeNoChange)
	require.Empty(t, b.repo.Head(t, "run/1"))
}

func TestHostileChangesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	added := func(path string) string {
		return "diff --git a/" + path + " b/" + path + "\nnew file mode 100644\n--- /dev/null\n+++ b/" + path + "\n@@ -0,0 +1 @@\n+x\n"
	}
	_, err := b.tryCommit(commitInput(base), "It makes the mirror.\n")
	requireCode(t, err, client.Permanent, client.CodeChange)
	stat := func() os.FileInfo {
		mirror, err := os.Stat(filepath.Join(b.steps.mirrors.Folder(), "repo1.git"))
		require.NoError(t, err)
		return mirror
	}
	first := stat()
	for name, c := range map[string]struct{ change, code string }{
		"outside":        {added("../evil"), client.CodeChange},
		"git":            {added(".git/config"), client.CodeChange},
		"git in capital": {added(".GIT/config"), client.CodeChange},
		"git below":      {added("sub/.git/hooks/post-checkout"), client.CodeChange},
		"absolute":       {added("/etc/passwd"), client.CodeChange},
		"no diff":        {"I could not do it.\n", client.CodeChange},
		"other content":  {"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-9\n+1\n", client.CodeChange},
		"hunk too short": {"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n-1\n+2\n", client.CodeChange},
		"no space":       {"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\nx\n-1\n+2\n", client.CodeChange},
		"bad binary": {"diff --git a/b b/b\nnew file mode 100644\nindex 0000000..1111111\nGIT binary patch\nliteral 3\nKcmZ\n\n",
			client.CodeChange},
		"a name":          {"diff --git a/corrupt b/corrupt\n--- a/corrupt\n+++ b/corrupt\n@@ -1 +1 @@\n-1\n+2\n", client.CodeChange},
		"a submodule":     {"diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+x\n", client.CodeChange},
		"a name, renamed": {"diff --git a/corrupt b/x\nsimilarity index 100%\nrename from corrupt\nrename to x\n", client.CodeChange},
		"binary bomb": {"diff --git a/b b/b\nnew file mode 100644\nindex 000..111\nGIT binary patch\nliteral 99999999999\nabc\n",
			client.CodeTooLarge},
		"many binaries": {strings.Repeat("GIT binary patch\nliteral 30000000\nzcmV\n\n", 3), client.CodeTooLarge},
		"huge":          {strings.Repeat("x", 17<<20), client.CodeTooLarge},
	} {
		_, err := b.tryCommit(commitInput(base), c.change)
		f := requireCode(t, err, client.Permanent, c.code)
		require.NotContains(t, f.Message, b.steps.mirrors.Folder(), name)
		require.True(t, os.SameFile(first, stat()), "%s: the mirror was not damaged", name)
	}
	require.Zero(t, b.host.Pushes())
}

func TestSecretsAreNotPushed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	change := b.change(t, base, githost.Files{"key.txt": "AKIA" + strings.Repeat("Q7", 8) + "\n"})
	in := commitInput(base)
	in.Policy = &client.Policy{MaxFiles: 10, MaxLines: 10}
	_, err := b.tryCommit(in, change)
	f := requireCode(t, err, client.Permanent, client.CodeSecret)
	require.Contains(t, f.Message, "key.txt")
	require.Zero(t, b.host.Pushes())
}

func readyInput(head string) client.ReadyInput {
	return client.ReadyInput{
		Branch: "run/1", Head: head, Base: "main", Lane: "svc-lane/1", Method: "merge", Message: "Merge it", Author: author, At: at,
	}
}

func mergeInput(head string, r client.ReadyResult) client.MergeInput {
	return client.MergeInput{
		Branch: "run/1", Head: head, Base: "main", BaseCommit: r.Base, Commit: r.Commit, Tree: r.Tree,
		Landing: "exact", Method: "merge", Title: "Merge it", Message: "Run: r1",
	}
}

// A conflict is what git says, not what an agent says.
func TestR10ConflictsAreFoundByGit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n", "b": "1\n"})
	made := b.committed(t, base, githost.Files{"a": "mine\n"})
	moved := b.repo.Commit(t, "main", "theirs", githost.Files{"a": "theirs\n"})
	r := b.ready(t, readyInput(made.Head))
	require.Equal(t, []string{"a"}, r.Conflicts)
	require.Equal(t, moved, r.Base)
	require.Empty(t, r.Commit)
	require.Empty(t, b.repo.Head(t, "svc-lane/1"))

	looked := b.look(t, client.LookInput{Branch: "run/1", Base: "main"})
	require.False(t, looked.Contained)
}

// What the base got in the meantime is not the work of the branch, not even after a merge of the base.
func TestR11OwnChangesOnlyAreInspected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	made := b.committed(t, base, githost.Files{"a": "2\n"})
	moved := b.repo.Commit(t, "main", "theirs", githost.Files{".github/workflows/ci.yml": "on: push\n"})
	r := b.ready(t, readyInput(made.Head))
	require.Equal(t, "clean", r.Guardrails.Status)
	require.Equal(t, r.Commit, b.repo.Head(t, "svc-lane/1"), "its tree is not the head's")
	require.Equal(t, moved+" "+made.Head, b.repo.Git(t, "log", "-1", "--format=%P", "svc-lane/1"))

	b.repo.Git(t, "update-ref", "refs/heads/run/1", r.Commit)
	checked := b.inspect(t, client.InspectInput{Base: moved, Head: r.Commit, Branch: "run/1"})
	require.Equal(t, "clean", checked.Status)
	require.Equal(t, 1, checked.Total)
}

func TestR15HeadThatMovedIsNotMerged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	made := b.committed(t, base, githost.Files{"a": "2\n"})
	r := b.ready(t, readyInput(made.Head))
	b.repo.Commit(t, "run/1", "by a person", githost.Files{"b": "1\n"})
	_, err := b.tryMerge(mergeInput(made.Head, r))
	requireCode(t, err, client.Permanent, client.CodeHeadMoved)
	_, err = b.tryReady(readyInput(made.Head))
	requireCode(t, err, client.Permanent, client.CodeHeadMoved)
	require.Equal(t, base, b.repo.Head(t, "main"))
	tidied := b.tidy(t, client.TidyInput{Branch: "run/1", Head: made.Head, Lane: "svc-lane/1"})
	require.Equal(t, "left", tidied.Branch)
}

// An exact landing never leaves a tree on the base that was not tested.
func TestR44BaseThatMovedIsNoticed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	made := b.committed(t, base, githost.Files{"a": "2\n"})
	r := b.ready(t, readyInput(made.Head))
	moved := b.repo.Commit(t, "main", "theirs", githost.Files{"b": "1\n"})
	_, err := b.tryMerge(mergeInput(made.Head, r))
	requireCode(t, err, client.Permanent, client.CodeBaseMoved)
	require.Equal(t, moved, b.repo.Head(t, "main"))

	r = b.ready(t, readyInput(made.Head))
	merged := b.merge(t, mergeInput(made.Head, r))
	require.Equal(t, moved, merged.FirstParent)
	require.False(t, merged.Outside)

	after := b.repo.Commit(t, "main", "later", githost.Files{"c": "1\n"})
	again := b.merge(t, mergeInput(made.Head, r))
	require.Equal(t, merged, again)
	require.Equal(t, after, b.repo.Head(t, "main"))
}

func TestMergeByAPersonIsOutside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	made := b.committed(t, base, githost.Files{"a": "2\n"})
	r := b.ready(t, readyInput(made.Head))
	person := b.repo.Git(t, "commit-tree", made.Tree, "-p", base, "-p", made.Head, "-m", "by hand")
	b.repo.Git(t, "update-ref", "refs/heads/main", person)
	b.repo.Commit(t, "main", "later", githost.Files{"c": "1\n"})
	merged := b.merge(t, mergeInput(made.Head, r))
	require.Equal(t, client.MergeResult{Commit: person, Tree: made.Tree, FirstParent: base, Outside: true}, merged)
}

func TestSquashHasOneParent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	made := b.committed(t, base, githost.Files{"a": "2\n"})
	in := readyInput(made.Head)
	in.Method = "squash"
	r := b.ready(t, in)
	merged := b.merge(t, mergeInput(made.Head, r))
	require.Equal(t, base, b.repo.Git(t, "log", "-1", "--format=%P", merged.Commit))
	again := b.merge(t, mergeInput(made.Head, r))
	require.Equal(t, merged, again)
}

func TestPolicyFileOfTheBase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.repo.Commit(t, "main", "first", githost.Files{
		".svc/loop.yaml": "version: 1\nlimits: {maxFiles: 3}\ninstructions: docs/a.md\n", "docs/a.md": "Be brief.\n",
	})
	got := b.issue(t, client.IssueInput{Branch: "main", Policy: client.Policy{MaxFiles: 50}})
	require.Equal(t, 3, got.Policy.MaxFiles)
	require.Equal(t, "Be brief.\n", got.Policy.Instructions)

	b.repo.Commit(t, "main", "second", githost.Files{".svc/loop.yaml": "version: 1\nlimits:\n  maxfiles: 3\n"})
	_, err := b.tryIssue(client.IssueInput{Branch: "main"})
	f := requireCode(t, err, client.Surroundings, client.CodePolicy)
	require.Equal(t, `.svc/loop.yaml, line 3, column 3: "maxfiles" is not known here`, f.Message)
	for _, wrong := range []struct {
		files githost.Files
		want  string
	}{
		{githost.Files{"120000 .svc/loop.yaml": "../docs/a.md"}, "a regular file is expected"},
		{githost.Files{".svc/loop.yaml": ""}, "the file is empty"},
		{githost.Files{".svc/loop.yaml": "# nothing\n"}, "version is missing"},
	} {
		b.repo.Commit(t, "main", "wrong", wrong.files)
		_, err := b.tryIssue(client.IssueInput{Branch: "main"})
		require.Contains(t, requireCode(t, err, client.Surroundings, client.CodePolicy).Message, wrong.want)
	}
	probed := b.probe(t, client.ProbeInput{ReadCredential: client.Credential{Token: githost.ReadToken}})
	require.False(t, probed.OK)
}
