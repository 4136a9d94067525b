package codehost

import (
	"bytes"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// example is a repository that is hard to order: folders sort as if their names ended in a slash.
func example() Repository {
	return Repository{
		Name: "acme/api", Author: "Ada Lind <ada@acme.example>", At: time.Unix(1_700_000_000, 0), Message: "Begin",
		Files: map[string][]byte{
			"a/b/c.txt": []byte("deep\n"), "a.txt": []byte("same\n"), "a-b": []byte("same\n"), "a0": {},
			"run.sh": []byte("#!/bin/sh\necho it runs\n"), "large": bytes.Repeat([]byte("0123456789"), 10_000),
		},
		Writers: []string{"ada"},
		Issues: []Issue{
			{Number: 7, Title: "First", Body: "A body", Labels: []string{"bug"}, Author: "ada", At: time.Unix(1_700_000_100, 0)},
			{Number: 8, Title: "Second", Author: "ada", At: time.Unix(1_700_000_200, 0)},
		},
	}
}

const exampleHead = "e0a365d4910b1810516964cf5768b55b45f150af"

// Tokens of the tests.
const (
	writeToken   = "a token that may push"
	readToken    = "a token that may read"
	limitedToken = "a token without workflows"
)

// git runs git without any configuration.
func git(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = folder
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada Lind", "GIT_AUTHOR_EMAIL=ada@acme.example", "GIT_COMMITTER_NAME=Ada Lind", "GIT_COMMITTER_EMAIL=ada@acme.example",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func mustGit(t *testing.T, folder string, args ...string) string {
	t.Helper()
	out, err := git(t, folder, args...)
	require.NoError(t, err, out)
	return strings.TrimSpace(out)
}

// startWithCode starts a host with example in a folder that changes may name.
func startWithCode(t *testing.T, changes ...func(*Config)) *site {
	t.Helper()
	return start(t, append([]func(*Config){func(c *Config) {
		c.Dir, c.Repos, c.Faults = t.TempDir(), []Repository{example()}, true
		c.Tokens = []Token{
			{Token: writeToken, Login: "bot", Push: true}, {Token: readToken, Login: "reader"},
			{Token: limitedToken, Login: "limited", Push: true, NoWorkflows: true},
		}
	}}, changes...)...)
}

// remote is a repository's URL with a token in it.
func (s *site) remote(name, token string) string {
	return strings.Replace(s.url, "http://", "http://x-access-token:"+strings.ReplaceAll(token, " ", "%20")+"@", 1) + "/" + name + ".git"
}

// A clone is a clone of acme/api that may push.
type clone struct {
	site   *site
	folder string
}

func (s *site) clone(t *testing.T, token string) clone {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "work")
	mustGit(t, "", "clone", "-q", s.remote("acme/api", token), folder)
	return clone{s, folder}
}

// commit commits a file to a branch that begins at from, and returns the commit.
func (c clone) commit(t *testing.T, branch, from, path, text string) string {
	t.Helper()
	mustGit(t, c.folder, "checkout", "-q", "-B", branch, from)
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(c.folder, path)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(c.folder, path), []byte(text), 0o644))
	mustGit(t, c.folder, "add", "-A")
	mustGit(t, c.folder, "commit", "-q", "-m", "Change "+path)
	return mustGit(t, c.folder, "rev-parse", "HEAD")
}

// push commits a file and pushes the branch.
func (c clone) push(t *testing.T, branch, from, path, text string) string {
	t.Helper()
	id := c.commit(t, branch, from, path, text)
	mustGit(t, c.folder, "push", "-q", "--force", "origin", branch)
	return id
}

// All ways in which a runner may fetch.
func TestRepositoriesCanBeCloned(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	for name, fetch := range map[string]func(folder string){
		"clone":   func(folder string) { mustGit(t, "", "clone", "-q", s.url+"/acme/api.git", folder) },
		"shallow": func(folder string) { mustGit(t, "", "clone", "-q", "--depth=1", s.url+"/acme/api", folder) },
		"version 0": func(folder string) {
			mustGit(t, "", "-c", "protocol.version=0", "clone", "-q", s.url+"/acme/api.git", folder)
		},
		"blobs later": func(folder string) {
			mustGit(t, "", "clone", "-q", "--no-tags", "--filter=blob:none", s.url+"/acme/api.git", folder)
		},
		"commit": func(folder string) {
			mustGit(t, "", "init", "-q", folder)
			mustGit(t, folder, "fetch", "-q", "--depth=1", s.url+"/acme/api.git", exampleHead)
			mustGit(t, folder, "checkout", "-q", "FETCH_HEAD")
		},
		"strict and quiet": func(folder string) {
			mustGit(t, "", "init", "-q", folder)
			said := mustGit(t, folder, "-c", "transfer.fsckObjects=true", "fetch", "-q", "--depth=1", s.url+"/acme/api.git", "refs/heads/main")
			require.Empty(t, said)
			mustGit(t, folder, "checkout", "-q", "FETCH_HEAD")
		},
		"after own work": func(folder string) {
			mustGit(t, "", "init", "-q", folder)
			for range 40 {
				mustGit(t, folder, "commit", "-q", "--allow-empty", "-m", "own")
			}
			mustGit(t, folder, "fetch", "-q", s.url+"/acme/api.git", "refs/heads/main")
			mustGit(t, folder, "checkout", "-q", "FETCH_HEAD")
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "work")
			fetch(folder)
			require.Equal(t, exampleHead, mustGit(t, folder, "rev-parse", "HEAD"))
			mustGit(t, folder, "fsck", "--strict", "--full")
			require.Empty(t, mustGit(t, folder, "status", "--porcelain"))
			require.Equal(t, slices.Sorted(maps.Keys(example().Files)), strings.Split(mustGit(t, folder, "ls-files"), "\n"))
			for path, want := range example().Files {
				got, err := os.ReadFile(filepath.Join(folder, path))
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got), path)
			}
			out, err := exec.CommandContext(t.Context(), filepath.Join(folder, "run.sh")).Output()
			require.NoError(t, err, "a script may be run")
			require.Equal(t, "it runs\n", string(out))
			mustGit(t, folder, "fetch", "-q", s.url+"/acme/api.git") // again, with nothing missing
		})
	}
}

func TestUnknownRepositoriesAreMissing(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	for _, name := range []string{"acme/web.git", "acme/api.git.git", "acme/..%2fapi", "..%2f..%2fetc/passwd", "acme/api%00", "/acme/api"} {
		require.NotEqual(t, http.StatusOK, s.do(t, "GET", "/"+name+"/info/refs?service=git-upload-pack", "").status, name)
		require.NotEqual(t, http.StatusOK, s.do(t, "POST", "/"+name+"/git-upload-pack", "0000").status, name)
	}
	out, err := git(t, "", "ls-remote", s.remote("acme/web", readToken))
	require.Error(t, err)
	require.Contains(t, out, "Repository not found.")
	require.Equal(t, http.StatusForbidden, s.do(t, "GET", "/acme/api.git/info/refs", "").status, "dumb clients")
}

func TestPushNeedsATokenThatMay(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	work := s.clone(t, writeToken)
	head := work.commit(t, "mine", "origin/main", "new.txt", "new\n")
	for token, want := range map[string]string{
		readToken: "Permission to acme/api.git denied to reader.", "a wrong token": "Invalid username or token",
	} {
		out, err := git(t, work.folder, "push", s.remote("acme/api", token), "mine")
		require.Error(t, err)
		require.Contains(t, out, want)
	}
	out, err := git(t, work.folder, "push", s.url+"/acme/api.git", "mine")
	require.Error(t, err)
	require.Contains(t, out, "could not read Username", "nobody is asked for a token")
	person := s.token(t, "eve", map[string]string{"scope": "repo"})
	out, err = git(t, work.folder, "push", s.remote("acme/api", person), "mine")
	require.Error(t, err)
	require.Contains(t, out, "denied to eve.", "may not write here")
	mustGit(t, work.folder, "push", "-q", s.remote("acme/api", s.token(t, "ada", map[string]string{"scope": "repo"})), "mine")
	require.Equal(t, head+"\trefs/heads/mine", mustGit(t, "", "ls-remote", s.url+"/acme/api.git", "mine"))

	// With an expected old value, as the engine pushes: again is nothing, another is refused.
	mustGit(t, work.folder, "push", "-q", "--force-with-lease=refs/heads/run/1:", "origin", "mine:refs/heads/run/1")
	mustGit(t, work.folder, "push", "-q", "--force-with-lease=refs/heads/run/1:", "origin", "mine:refs/heads/run/1")
	other := work.commit(t, "other", "origin/main", "new.txt", "other\n")
	out, err = git(t, work.folder, "push", "--force-with-lease=refs/heads/run/1:", "origin", "other:refs/heads/run/1")
	require.Error(t, err)
	require.Contains(t, out, "stale info")
	mustGit(t, work.folder, "push", "-q", "--force-with-lease=refs/heads/run/1:"+head, "origin", other+":refs/heads/run/1")
	out, err = git(t, work.folder, "push", "origin", "other:refs/pull/7/head")
	require.Error(t, err, out)

	large := filepath.Join(work.folder, "random")
	require.NoError(t, exec.CommandContext(t.Context(), "dd", "if=/dev/urandom", "of="+large, "bs=1M", "count=3", "status=none").Run())
	mustGit(t, work.folder, "add", "random")
	mustGit(t, work.folder, "commit", "-q", "-m", "Large")
	mustGit(t, work.folder, "push", "-q", "origin", "HEAD:refs/heads/large") // in chunks
}

func TestPushIsChecked(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	work := s.clone(t, writeToken)
	tree := mustGit(t, work.folder, "rev-parse", "HEAD:a")
	hostile := filepath.Join(work.folder, "tree")
	require.NoError(t, os.WriteFile(hostile, append([]byte("40000 .git\x00"), unhex(t, tree)...), 0o600))
	id := mustGit(t, work.folder, "hash-object", "--literally", "-t", "tree", "-w", "tree")
	commit := mustGit(t, work.folder, "commit-tree", "-m", "hostile", id)
	out, err := git(t, work.folder, "push", "origin", commit+":refs/heads/hostile")
	require.Error(t, err)
	require.Contains(t, out, "hasDotgit")
}

func TestWorkflowsNeedTheirPermission(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	work := s.clone(t, limitedToken)
	work.push(t, "fine", "origin/main", "docs/x.txt", "x\n")
	work.commit(t, "ci", "origin/main", ".github/workflows/ci.yml", "on: push\n")
	work.commit(t, "ci", "ci", "docs/y.txt", "y\n")
	out, err := git(t, work.folder, "push", "origin", "ci")
	require.Error(t, err)
	require.Contains(t, out, "refusing to allow a Personal Access Token to create or update workflow "+
		"`.github/workflows/ci.yml` without `workflow` scope")
	require.Contains(t, out, "[remote rejected] ci -> ci")
	require.Empty(t, mustGit(t, "", "ls-remote", s.url+"/acme/api.git", "ci"))
	mustGit(t, work.folder, "push", "-q", s.remote("acme/api", writeToken), "ci")
	work.push(t, "fine", "ci", "docs/z.txt", "z\n") // the workflow is there already
}

func TestRepositoriesOutliveTheHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here := func(c *Config) { c.Dir = dir }
	s := startWithCode(t, here)
	head := s.clone(t, writeToken).push(t, "mine", "origin/main", "new.txt", "new\n")
	s.api(t, "POST /repos/acme/api/pulls", `{"title":"New","head":"mine","base":"main"}`).is(t, http.StatusCreated)

	// What somebody does to the repository while the host is down is found at its start.
	bare := filepath.Join(dir, "acme", "api.git")
	mustGit(t, bare, "update-ref", "refs/heads/main", head)
	s = startWithCode(t, here)
	require.Equal(t, true, s.api(t, "GET /repos/acme/api/pulls/9", "").is(t, http.StatusOK)["merged"])
	require.Equal(t, "First", s.api(t, "GET /repos/acme/api/issues/7", "").is(t, http.StatusOK)["title"])
}

func TestInvalidRepositoriesAreRejected(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Repository){
		"no owner": func(r *Repository) { r.Name = "api" }, "a path": func(r *Repository) { r.Name = "a/b/c" },
		"climbs": func(r *Repository) { r.Name = "../api" }, "no files": func(r *Repository) { r.Files = nil },
		"climbs at its end":   func(r *Repository) { r.Name = "acme/.." },
		"a file that climbs":  func(r *Repository) { r.Files["../x"] = nil },
		"a file of git's own": func(r *Repository) { r.Files[".git/config"] = nil },
	} {
		r := example()
		change(&r)
		require.Error(t, r.Check(), name)
	}
}
