package bare

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/cgi" //nolint:gosec // Go has been safe since 1.6.3
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// A Backend serves repositories by git's "smart" protocol over HTTP.
type Backend struct {
	program string
	hooks   string // folder of the update hook
	log     *slog.Logger
}

// NewBackend finds the machine's git and writes its hook to a folder. Its error wraps [exec.ErrNotFound] if
// there is none.
func NewBackend(hooks string, to *slog.Logger) (*Backend, error) {
	out, err := exec.Command("git", "--exec-path").Output() //nolint:noctx // it prints a path
	if err != nil {
		return nil, fmt.Errorf("find git: %w", err)
	}
	program := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("find git: %w", err)
	}
	if err := os.MkdirAll(hooks, 0o700); err != nil {
		return nil, err
	}
	err = os.WriteFile(filepath.Join(hooks, "update"), []byte(updateHook), 0o700) //nolint:gosec // git runs it
	return &Backend{program, hooks, to}, err
}

// updateHook refuses a ref. Its quarantined objects are dropped then.
const updateHook = `#!/bin/sh
# Refuses the update of a ref, from $2 to $3, in the words of GitHub.
if [ -n "${SVC_REFUSE-}" ]; then
	echo "$SVC_REFUSE" >&2
	exit 1
fi
case "$3" in *[!0]*) ;; *) exit 0 ;; esac
[ "${SVC_WORKFLOWS-}" = no ] || exit 0
file=$(git log -m --first-parent --format= --name-only "$3" --not --all -- .github/workflows | head -n 1)
[ -z "$file" ] && exit 0
echo "refusing to allow a Personal Access Token to create or update workflow \` + "`$file\\`" + ` without \` + "`workflow\\`" + ` scope" >&2
exit 1
`

// A Visit is what a request may do.
type Visit struct {
	Push      bool
	Workflows bool   // a push may change files below .github/workflows
	Refuse    string // each ref of a push is refused with this text, unless it is empty
	User      string // login, or ""
}

// Spool reads the body of a request, however long that takes, and returns a request for [Backend.Serve]. The
// caller must close its body.
func Spool(r *http.Request) (*http.Request, error) {
	body, size, err := spool(r)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	in := r.Clone(r.Context())
	in.Body, in.TransferEncoding, in.ContentLength = body, nil, size // CGI needs to know the length
	return in, nil
}

// Serve answers a request that was spooled and whose path ends in path, such as /info/refs.
func (b *Backend) Serve(w http.ResponseWriter, r *http.Request, repo Repo, path string, v Visit) {
	in := r.Clone(r.Context())
	in.Header.Del("Authorization") // not for hooks
	in.URL.Path = "/git" + path
	config := [][2]string{{"http.receivepack", strconv.FormatBool(v.Push)}}
	if v.Refuse != "" || !v.Workflows {
		config = append(config, [2]string{"core.hooksPath", b.hooks})
	}
	env := append(repo.environment(config...),
		"GIT_PROJECT_ROOT="+repo.Dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_PROTOCOL="+protocol(r), "SVC_REFUSE="+v.Refuse,
		"GIT_COMMITTER_NAME="+v.User, "GIT_COMMITTER_EMAIL="+v.User+"@codehost.invalid")
	if !v.Workflows {
		env = append(env, "SVC_WORKFLOWS=no")
	}
	said := slog.NewLogLogger(b.log.Handler(), slog.LevelDebug)
	(&cgi.Handler{
		Path: b.program, Root: "/git", Dir: repo.Dir, Env: env, Logger: said, Stderr: lines{said},
	}).ServeHTTP(w, in)
}

// protocol returns the version of the protocol that the client asks for.
func protocol(r *http.Request) string {
	text := r.Header.Get("Git-Protocol")
	if text != "version=1" && text != "version=2" {
		return ""
	}
	return text
}

// spool writes the body of a request to a file without a name, and returns its size.
func spool(r *http.Request) (*os.File, int64, error) {
	f, err := os.CreateTemp("", "svc-codehost-*")
	if err != nil {
		return nil, 0, err
	}
	_ = os.Remove(f.Name())
	n, err := io.Copy(f, r.Body)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, n, nil
}

// lines writes what git says to a log.
type lines struct{ to *log.Logger }

func (l lines) Write(text []byte) (int, error) {
	l.to.Print(strings.TrimSpace(string(text)))
	return len(text), nil
}
