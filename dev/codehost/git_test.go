package codehost

import (
	"bytes"
	"compress/gzip"
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
	}
}

const exampleHead = "e0a365d4910b1810516964cf5768b55b45f150af"

// git runs git without any configuration.
func git(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func mustGit(t *testing.T, folder string, args ...string) string {
	t.Helper()
	out, err := git(t, folder, args...)
	require.NoError(t, err, out)
	return strings.TrimSpace(out)
}

func startWithCode(t *testing.T) *site {
	return start(t, func(c *Config) { c.Repos = []Repository{example()} })
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
				mustGit(t, folder, "-c", "user.name=n", "-c", "user.email=e@n.example", "commit", "-q", "--allow-empty", "-m", "own")
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

func TestRepositoriesAreReadOnlyAndUnknownOnesMissing(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	folder := filepath.Join(t.TempDir(), "work")
	mustGit(t, "", "clone", "-q", s.url+"/acme/api.git", folder)
	out, err := git(t, folder, "push", "origin", "HEAD:refs/heads/mine")
	require.Error(t, err)
	require.Contains(t, out, "403")
	out, err = git(t, folder, "fetch", "origin", strings.Repeat("a", 40))
	require.Error(t, err)
	require.Contains(t, out, "not our ref")
	for _, name := range []string{"acme/web.git", "acme/api.git.git", "Acme/api", "acme/..%2fapi", "..%2f..%2fetc/passwd",
		"acme/api%00", "/acme/api"} {
		require.NotEqual(t, http.StatusOK, s.do(t, "GET", "/"+name+"/info/refs?service=git-upload-pack", "").status, name)
		require.NotEqual(t, http.StatusOK, s.do(t, "POST", "/"+name+"/git-upload-pack", "0000").status, name)
	}
	_, err = git(t, "", "ls-remote", s.url+"/acme/web.git")
	require.Error(t, err)
}

func TestMalformedGitRequestsAreRejected(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	compress := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return b.String()
	}
	want := pktLine("want " + exampleHead)
	for name, body := range map[string]string{
		"nothing": "", "no length": "hello", "a flush alone": flushPkt, "cut off": want[:20], "no flush": want,
		"too short": "0003", "too long": "ffff" + want,
		"no commit": pktLine("want main") + flushPkt, "another verb": want + pktLine("push me") + flushPkt,
		"done too early": want + pktLine("done"),
		"not squeezed":   "\x1f\x8b", "squeezed without end": compress(strings.Repeat(pktLine("have "+exampleHead), 1<<16)),
	} {
		var header []string
		if strings.HasPrefix(body, "\x1f") {
			header = []string{"Content-Encoding", "gzip"}
		}
		require.Equal(t, http.StatusBadRequest, s.do(t, "POST", "/acme/api/git-upload-pack", body, header...).status, name)
	}
	answer := s.do(t, "POST", "/acme/api/git-upload-pack", compress(want+flushPkt+pktLine("done")), "Content-Encoding", "gzip")
	require.Equal(t, http.StatusOK, answer.status)
	require.True(t, strings.HasPrefix(answer.body, pktLine("NAK")+"PACK"))
	require.Equal(t, http.StatusRequestEntityTooLarge, s.do(t, "POST", "/acme/api/git-upload-pack", strings.Repeat("x", maxForm+1)).status)
}

func TestInvalidRepositoriesAreRejected(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Repository){
		"no owner": func(r *Repository) { r.Name = "api" }, "a path": func(r *Repository) { r.Name = "a/b/c" },
		"climbs": func(r *Repository) { r.Name = "../api" }, "no files": func(r *Repository) { r.Files = nil },
		"a file that climbs":  func(r *Repository) { r.Files["../x"] = nil },
		"a file of git's own": func(r *Repository) { r.Files[".git/config"] = nil },
	} {
		r := example()
		change(&r)
		_, err := r.pack()
		require.Error(t, err, name)
	}
}
