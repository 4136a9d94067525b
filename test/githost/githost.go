// Package githost serves bare repositories over HTTP for tests, by git's own program for that.
package githost

import (
	"fmt"
	"net/http"
	"net/http/cgi" //nolint:gosec // for tests, and with Go's own protection
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Token is what the host accepts as password for everything.
const Token = "planted-token-3f9c1a7e55"

// ReadToken is what it accepts for reading.
const ReadToken = "planted-reader-8d2b60cc"

// A Host serves repositories below a folder. Reading and pushing need [Token].
type Host struct {
	*httptest.Server
	Root string

	// Fault answers instead of git if it returns true.
	Fault func(http.ResponseWriter, *http.Request) bool

	// Public says that reading needs no token.
	Public bool

	// API, if it is set, answers paths below /api/.
	API http.Handler

	mu     sync.Mutex
	pushes int
}

// Start starts a host, which ends with the test.
func Start(t testing.TB) *Host {
	t.Helper()
	h := &Host{Root: t.TempDir()}
	exec, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(exec)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + h.Root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=tester", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_CONFIG_GLOBAL=/dev/null", "HOME=/dev/null"},
		InheritEnv: []string{"PATH"},
	}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case h.Fault != nil && h.Fault(w, r):
		case strings.HasPrefix(r.URL.Path, "/api/") && h.API != nil:
			h.API.ServeHTTP(w, r)
		case !h.allowed(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			if strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
				h.mu.Lock()
				h.pushes++
				h.mu.Unlock()
			}
			backend.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *Host) allowed(r *http.Request) bool {
	_, password, _ := r.BasicAuth()
	writes := strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack"
	return password == Token || !writes && (h.Public || password == ReadToken)
}

// Pushes returns how many pushes reached git.
func (h *Host) Pushes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pushes
}

// A Repository is a bare repository of a host.
type Repository struct {
	Name string // owner/name
	URL  string
	Dir  string
}

// Create makes an empty repository.
func (h *Host) Create(t testing.TB, name string) *Repository {
	t.Helper()
	r := &Repository{Name: name, URL: h.URL + "/" + name + ".git", Dir: filepath.Join(h.Root, name+".git")}
	require.NoError(t, os.MkdirAll(r.Dir, 0o755))
	r.Git(t, "init", "--quiet", "--bare", "--initial-branch=main", "--template=", ".")
	r.Git(t, "config", "http.receivepack", "true")
	r.Git(t, "config", "receive.fsckObjects", "true")
	return r
}

// Git runs git in the repository and returns what it prints.
func (r *Repository) Git(t testing.TB, args ...string) string {
	t.Helper()
	return r.input(t, "", args...)
}

func (r *Repository) input(t testing.TB, in string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = r.Dir, strings.NewReader(in)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Tester", "GIT_AUTHOR_EMAIL=tester@example.org", "GIT_COMMITTER_NAME=Tester",
		"GIT_COMMITTER_EMAIL=tester@example.org", "GIT_AUTHOR_DATE=@1700000000 +0000", "GIT_COMMITTER_DATE=@1700000000 +0000",
	}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "git %s: %s", strings.Join(args, " "), &said)
	return strings.TrimSpace(string(out))
}

// Files are contents by path. A path may begin with a mode, as in "120000 link". Gone deletes a file.
type Files map[string]string

// Gone is the content of a file that is deleted.
const Gone = "\x00gone"

// Commit commits files on top of a branch, and returns the commit.
func (r *Repository) Commit(t testing.TB, branch, message string, files Files) string {
	t.Helper()
	return r.CommitOn(t, branch, "refs/heads/"+branch, message, files)
}

// CommitOn commits files on top of a commit, as the new head of a branch.
func (r *Repository) CommitOn(t testing.TB, branch, parent, message string, files Files) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter Tester <tester@example.org> 1700000000 +0000\ndata %d\n%s\n", branch, len(message), message)
	if r.Git(t, "for-each-ref", parent) != "" || !strings.HasPrefix(parent, "refs/") {
		fmt.Fprintf(&b, "from %s^0\n", parent)
	}
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		content, mode := files[path], "100644"
		if m, rest, ok := strings.Cut(path, " "); ok && len(m) == 6 {
			mode, path = m, rest
		}
		switch {
		case content == Gone:
			fmt.Fprintf(&b, "D %s\n", path)
		case mode == "160000":
			fmt.Fprintf(&b, "M %s %s %s\n", mode, content, path)
		default:
			fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", mode, path, len(content), content)
		}
	}
	r.input(t, b.String(), "fast-import", "--quiet", "--force", "--date-format=raw")
	return r.Git(t, "rev-parse", branch)
}

// Diff returns the difference of two commits as a job makes it.
func (r *Repository) Diff(t testing.TB, a, b string) string {
	t.Helper()
	return r.Git(t, "diff", "--binary", "--full-index", "--no-renames", a, b) + "\n"
}

// Head returns the commit of a branch, "" if there is none.
func (r *Repository) Head(t testing.TB, branch string) string {
	t.Helper()
	return r.Git(t, "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
}
