//go:build linux && !race

package run

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/test/address"
)

// The tokens of the code host. Only the engine receives the first, and only build machines the second.
const (
	hostToken     = "host-token-that-may-write"
	hostReadToken = "host-token-that-may-only-read"
)

// A codeHost is svc-codehost, across restarts.
type codeHost struct {
	t       *testing.T
	dir     string
	url     string
	environ []string
	process *process
}

// newCodeHost starts a code host. It keeps its folder and its address.
func newCodeHost(t *testing.T, environ ...string) *codeHost {
	t.Helper()
	at := address.Free(t)
	h := &codeHost{t: t, dir: t.TempDir(), url: "http://" + at}
	h.environ = append(append(cleanEnviron(), "SVC_CODEHOST_ADDR="+at, "SVC_CODEHOST_CLIENT_ID=svc",
		"SVC_CODEHOST_CLIENT_SECRET=a-secret-of-the-code-host", "SVC_CODEHOST_CALLBACK=http://127.0.0.1/api/auth/callback/github",
		"SVC_CODEHOST_DIR="+h.dir, "SVC_CODEHOST_TOKEN="+hostToken, "SVC_CODEHOST_READ_TOKEN="+hostReadToken,
		"SVC_CODEHOST_FAULTS=true"), environ...)
	h.start()
	return h
}

func (h *codeHost) start(environ ...string) {
	h.t.Helper()
	h.process = start(h.t, nil, append(h.environ[:len(h.environ):len(h.environ)], environ...), "svc-codehost").waitForOutput("listening")
}

// ask sends a request of GitHub's interface, by the token that may write, and decodes the answer unless out is nil.
func (h *codeHost) ask(t *testing.T, status int, method, path string, body, out any) {
	t.Helper()
	a := byToken(hostToken).expect(t, status, method, h.url+"/api/v3"+path, body)
	if out != nil {
		require.NoError(t, json.Unmarshal(a.body, out), string(a.body))
	}
}

// A hostFault is a rule of the code host by which requests fail.
type hostFault map[string]any

// fail makes requests of a method, any if it is "", to paths that match a pattern fail.
func (h *codeHost) fail(t *testing.T, method, pattern string, rule hostFault) {
	t.Helper()
	rule["match"] = map[string]string{"method": method, "path": pattern}
	caller{}.expect(t, http.StatusCreated, "POST", h.url+"/_test/faults", rule)
}

// An effects counts what was done at a repository since the code host started.
type effects struct {
	Pushes          map[string]int
	Branches        int
	BranchesDeleted int `json:"branches_deleted"`
	Pulls           int `json:"pulls_created"`
	PullsClosed     int `json:"pulls_closed"`
	Comments        int `json:"comments_created"`
	Merges          int
}

func (h *codeHost) counts(t *testing.T, repo string) (e effects) {
	t.Helper()
	a := caller{}.expect(t, http.StatusOK, "GET", h.url+"/_test/counts", nil)
	return decode[struct{ Repositories map[string]effects }](t, a).Repositories[repo]
}

// A clone is a working copy of a repository in which a person works.
type clone struct {
	t   *testing.T
	dir string
}

// newClone makes a working copy of a repository that may be empty.
func (h *codeHost) newClone(t *testing.T, repo string) clone {
	t.Helper()
	c := clone{t, t.TempDir()}
	c.git("clone", "-q", strings.Replace(h.url, "http://", "http://x:"+hostToken+"@", 1)+"/"+repo+".git", ".")
	return c
}

// git runs git and returns what it prints.
func (c clone) git(args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ben", "GIT_AUTHOR_EMAIL=ben@acme.example", "GIT_COMMITTER_NAME=Ben", "GIT_COMMITTER_EMAIL=ben@acme.example"}
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// push commits files on a branch, which it creates if need be, pushes it, and returns the commit.
func (c clone) push(branch string, files map[string]string) string {
	c.t.Helper()
	for name, text := range files {
		path := filepath.Join(c.dir, name)
		require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(c.t, os.WriteFile(path, []byte(text), 0o755))
	}
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "Change "+fmt.Sprint(len(files))+" files")
	c.git("push", "-q", "origin", "HEAD:refs/heads/"+branch)
	return c.git("rev-parse", "HEAD")
}
