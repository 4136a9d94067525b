//go:build linux

package runner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// kept returns a file that a job uploaded, once everything is uploaded. ok is false if it has none.
func (f *farm) kept(k attemptKey, path string) (data string, ok bool) {
	f.t.Helper()
	if f.ended(k).Artifacts == 0 {
		return "", false
	}
	require.Eventually(f.t, f.with(k, func(j *farmJob) bool { return j.complete }), waitLimit, 5*time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.jobs[k].manifest.Files {
		if file.Path == path {
			return string(f.jobs[k].files[file.ID+".0"]), true
		}
	}
	return "", false
}

// collecting returns a job that changes a checkout in bubblewrap.
func collecting(repo, commit string, scripts ...string) wire.Assign {
	return wire.Assign{
		Sandbox: wire.Sandbox{Kind: sandbox.Bubblewrap, Network: "none"}, Steps: steps(scripts...), Collect: true, Attempt: 1,
		Source:       &wire.Source{URL: "file://" + repo, Commit: commit},
		Artifacts:    []wire.Artifact{{Name: "out", Paths: []string{".svc-out/**"}, When: "always"}},
		GraceSeconds: 2, RunSeconds: 60, Env: map[string]string{"SVC_COMMIT": commit},
	}
}

// gitIn runs git in a folder.
func gitIn(t *testing.T, dir, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

const changedFile = ".svc-out/" + wire.ChangeFile

// What the steps changed applies elsewhere with the same result: new, changed, removed, binary and executable
// files and links, but neither ignored files nor the output folder.
func TestR12TheChangeOfAShallowCheckoutApplies(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	repo, _ := repository(t)
	for i := range 300 {
		require.NoError(t, os.WriteFile(filepath.Join(repo, fmt.Sprintf("f%d.txt", i)), fmt.Appendf(nil, "line %d\n", i), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(repo, ".gitignore"), []byte("ignored\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(repo, ".svc-out"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(repo, ".svc-out", wire.OutcomeFile), []byte(`{"status":"done"}`), 0o600))
	gitIn(t, repo, "", "add", "-A", "-f")
	gitIn(t, repo, "", "commit", "--quiet", "-m", "many")
	commit := gitIn(t, repo, "", "rev-parse", "HEAD")
	for kind, spec := range map[string]wire.Sandbox{
		"none": {Kind: sandbox.None, Network: "host"}, "bubblewrap": {Kind: sandbox.Bubblewrap, Network: "none"},
	} {
		a := collecting(repo, commit, `test -z "$(ls -A $SVC_OUT)"; git rev-list --count HEAD
			for i in $(seq 0 2 299); do echo changed >> f$i.txt; done
			rm f1.txt; mkdir sub; head -c 3000 /dev/urandom > sub/binary; printf '#!/bin/sh\n' > tool; chmod +x tool; ln -s tool link
			git mv f3.txt moved.txt; touch ignored; echo hello > $SVC_OUT/notes
			git add -A; touch .git/index.lock`)
		a.Sandbox = spec
		k := f.assign(a)
		require.Equal(t, "succeeded", f.ended(k).Outcome, f.log(k))
		require.Contains(t, f.log(k), "1\n", "the checkout has no history")
		diff, ok := f.kept(k, changedFile)
		require.True(t, ok, f.log(k))
		notes, _ := f.kept(k, ".svc-out/notes")
		require.Equal(t, "hello\n", notes)
		require.NotContains(t, diff, "svc-out")
		require.NotContains(t, diff, "ignored")

		mirror := t.TempDir()
		gitIn(t, mirror, "", "clone", "--quiet", "file://"+repo, ".")
		gitIn(t, mirror, diff, "apply", "--index", "--binary", "-")
		require.Equal(t, "100755", strings.Fields(gitIn(t, mirror, "", "ls-files", "-s", "tool"))[0], kind)
		require.Equal(t, "120000", strings.Fields(gitIn(t, mirror, "", "ls-files", "-s", "link"))[0], kind)
		changed := strings.Split(gitIn(t, mirror, "", "diff", "--cached", "--no-renames", "--name-only", "HEAD"), "\n")
		require.Len(t, changed, 150+6, "f1, f3, moved, binary, link and tool")
	}
	r.requireNoJobs()
}

// What was changed is kept however the steps end, and the end is the same.
func TestR8WorkThatIsCutOffIsKept(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	repo, commit := repository(t)
	const work = `echo more >> file; echo '{"status":"done"}' > $SVC_OUT/part; `
	begun := map[attemptKey]struct{ name, want string }{} // all run at once: each takes its time
	for name, c := range map[string]struct {
		change func(*wire.Assign)
		script string
		want   string
	}{
		"a failure":    {func(*wire.Assign) {}, work + "exit 3", "failed "},
		"the deadline": {func(a *wire.Assign) { a.RunSeconds = 10 }, work + "exec sleep 600", "timed_out run_timeout"},
		"the deadline, ignored": {func(a *wire.Assign) { a.RunSeconds = 10 },
			"trap '' TERM; " + work + "while :; do sleep 1; done", "timed_out run_timeout"},
		"silence": {func(a *wire.Assign) { a.IdleSeconds = 2 }, work + "exec sleep 600", "timed_out idle"},
	} {
		a := collecting(repo, commit, c.script)
		c.change(&a)
		begun[f.assign(a)] = struct{ name, want string }{name, c.want}
	}
	for k, job := range begun {
		end := f.ended(k)
		require.Equal(t, job.want, end.Outcome+" "+end.Reason, job.name)
		diff, _ := f.kept(k, changedFile)
		require.Contains(t, diff, "\n+more\n", job.name)
	}
	for name, grace := range map[string]int{"in the grace period": 20, "after it": 1} {
		script := "echo ready; exec sleep 600"
		if grace == 1 {
			script = "trap '' TERM; echo ready; while :; do sleep 1; done"
		}
		k := f.assign(collecting(repo, commit, work+script))
		require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
		f.send(wire.Cancel{GraceSeconds: grace}, k)
		end := f.ended(k)
		require.Equal(t, "cancelled cancel", end.Outcome+" "+end.Reason, name)
		diff, _ := f.kept(k, changedFile)
		require.Contains(t, diff, "\n+more\n", "cancelled, %s", name)
	}
	r.requireNoJobs()
}

// A secret that an implementer writes into its outcome is masked, whatever its encoding, and a change that has one is
// not kept.
func TestSecretsInTheOutputAreMasked(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	repo, commit := repository(t)
	const secret = `a "secret" of the job`
	for n, script := range []string{
		`printf '{"status":"done","summary":"a \\"secret\\" of the job"}' >.svc-out/outcome.json
		mkdir .svc-out/more; echo "$KEY" >.svc-out/more/x`,
		`echo "$KEY" >leaked; echo '{"status":"done"}' >.svc-out/outcome.json`,
	} {
		a := collecting(repo, commit, script)
		a.Secrets = map[string]string{"KEY": secret, "SHORT": "done"}
		k := f.assign(a)
		for _, path := range []string{".svc-out/outcome.json", ".svc-out/more/x", changedFile, ".svc-out/" + wire.RefusedFile} {
			text, _ := f.kept(k, path)
			require.NotContains(t, text, "secret\\\"", path)
			require.NotContains(t, text, secret, path)
		}
		outcome, _ := f.kept(k, ".svc-out/outcome.json")
		require.Contains(t, outcome, `"done"`)
		_, changed := f.kept(k, changedFile)
		_, refused := f.kept(k, ".svc-out/"+wire.RefusedFile)
		require.Equal(t, []bool{n == 0, n == 1}, []bool{changed, refused})
	}
	r.requireNoJobs()
}

// Nothing that steps do to the checkout, or to the output folder, changes how the job ends.
func TestHostileCheckoutIsCollected(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	repo, commit := repository(t)
	for name, c := range map[string]struct{ script, want string }{
		"no repository":   {"rm -rf .git", ""},
		"a broken one":    {"echo broken > .git/HEAD", ""},
		"commits":         {"echo more >> file; git -c user.name=a -c user.email=a@a commit -qam two", "\n+more\n"},
		"hidden changes":  {"echo more >> file; git update-index --assume-unchanged file; git update-index --skip-worktree file", "\n+more\n"},
		"prefixes":        {"echo more >> file; git config diff.noprefix true; git config diff.mnemonicPrefix true", "--- a/file\n+++ b/file\n"},
		"another diff":    {"echo more >> file; git config diff.external /bin/false; git config core.fsmonitor /bin/false", "\n+more\n"},
		"a text driver":   {"echo more >> file; echo '* diff=x' > .git/info/attributes; git config diff.x.textconv /bin/false", "\n+more\n"},
		"no folder":       {"echo more >> file; rm -rf $SVC_OUT", "\n+more\n"},
		"a link":          {"echo more >> file; ln -s /etc/passwd $SVC_OUT/change.diff", "\n+more\n"},
		"a folder":        {"echo more >> file; mkdir $SVC_OUT/change.diff", "\n+more\n"},
		"a pipe":          {"echo more >> file; mkfifo $SVC_OUT/outcome.json $SVC_OUT/change.diff", "\n+more\n"},
		"nothing changed": {"true", ""},
	} {
		k := f.assign(collecting(repo, commit, c.script))
		require.Equal(t, "succeeded", f.ended(k).Outcome, name)
		diff, _ := f.kept(k, changedFile)
		require.Contains(t, diff, c.want, name)
	}
	r.requireNoJobs()
}

// A step that has written its outcome and does not end is stopped, and has succeeded. One that has written
// a part of it, or something else, goes on.
func TestR4AStepThatDoesNotExitIsDone(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	repo, commit := repository(t)
	const stays = "; trap '' TERM; while :; do echo waiting; sleep 0.2; done"
	a := collecting(repo, commit, `echo more >> file; printf '{"status":"done",' > $SVC_OUT/outcome.json; sleep 1
		printf '{"status":"done","summary":"done"}' > $SVC_OUT/outcome.json`+stays, "echo second")
	k := f.assign(a)
	end := f.ended(k)
	require.Equal(t, "succeeded", end.Outcome, f.log(k))
	require.Contains(t, f.log(k), "second\n")
	diff, _ := f.kept(k, changedFile)
	require.Contains(t, diff, "\n+more\n")

	for _, outcome := range []string{`{"status":"done"`, `[]`, `{"summary":"done"}`, `x`} {
		a := collecting(repo, commit, "echo '"+outcome+"' > $SVC_OUT/outcome.json"+stays)
		a.RunSeconds, a.GraceSeconds = 3, 1
		require.Equal(t, "timed_out", f.ended(f.assign(a)).Outcome, outcome)
	}
	r.requireNoJobs()
}

// Output of any process of the step resets the idle limit, even if the log has no room for it.
func TestR3SilentStepsAreStopped(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	for _, kind := range []string{sandbox.None, sandbox.Bubblewrap} {
		silent := f.assign(wire.Assign{Sandbox: wire.Sandbox{Kind: kind, Network: "none"}, IdleSeconds: 1, GraceSeconds: 5,
			Steps: steps("echo begun; exec sleep 600", "echo never")})
		busy := f.assign(wire.Assign{Sandbox: wire.Sandbox{Kind: kind, Network: "none"}, IdleSeconds: 5, GraceSeconds: 5,
			Steps: steps("(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.5; printf .; done) & exec >/dev/null 2>&1; wait", "echo second")})
		end := f.ended(silent)
		require.Equal(t, "timed_out idle SIGTERM", end.Outcome+" "+end.Reason+" "+end.Signal, kind)
		require.Contains(t, f.log(silent), "[nothing was printed for 1 seconds]")
		require.NotContains(t, f.log(silent), "never")
		require.Equal(t, "succeeded", f.ended(busy).Outcome, f.log(busy))
		require.Contains(t, f.log(busy), "second\n")
	}
	r.requireNoJobs()
}

// A job finds its own input, cannot change it in bubblewrap, and finds nothing of an earlier attempt.
func TestR37EachAttemptHasFreshFolders(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	repo, commit := repository(t)
	input := bytes.Repeat([]byte(`{"contract":1} `), 1<<20/15)
	digest := sha256.Sum256(input)
	for _, kind := range []string{sandbox.None, sandbox.Bubblewrap} {
		id := events.NewID(time.Now()).String()
		first := collecting(repo, commit, `sha256sum < $SVC_IN/task.json; stat -c '%a' $SVC_IN/task.json
			echo '{"status":"done"}' > $SVC_OUT/outcome.json`)
		first.Sandbox.Kind, first.Input = kind, input
		f.assignAs(attemptKey{id, 1}, first)
		k := attemptKey{id, 1}
		require.Equal(t, "succeeded", f.ended(k).Outcome, f.log(k))
		require.Contains(t, f.log(k), hex.EncodeToString(digest[:])+"  -\n400\n")
		outcome, _ := f.kept(k, ".svc-out/outcome.json")
		require.Contains(t, outcome, "done")

		second := collecting(repo, commit, `cat $SVC_IN/task.json; ls -A $SVC_OUT
			if [ "$SVC_IN" = /in ]; then ! { echo x > $SVC_IN/task.json; } 2>/dev/null; ! rm -f $SVC_IN/task.json; fi`)
		second.Sandbox.Kind, second.Input = kind, []byte("second\n")
		k = attemptKey{id, 2}
		f.assignAs(k, second)
		require.Equal(t, "succeeded", f.ended(k).Outcome, f.log(k))
		require.True(t, strings.HasPrefix(f.log(k), "second\n"), f.log(k))
		_, ok := f.kept(k, ".svc-out/outcome.json")
		require.False(t, ok, "it is that of the first attempt")

		none := f.assign(wire.Assign{Steps: steps(`echo "in=$SVC_IN out=$SVC_OUT"`)})
		require.Equal(t, "succeeded", f.ended(none).Outcome)
		require.Equal(t, "in= out=\n", f.log(none))
	}
	r.requireNoJobs()
}

// The branch may move while a job is queued or runs: the job has the commit that it names.
func TestR43TheNamedCommitIsBuilt(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	start(t, f.enrolled())
	repo, commit := repository(t)
	require.NoError(t, os.WriteFile(filepath.Join(repo, "file"), []byte("later\n"), 0o600))
	gitIn(t, repo, "", "commit", "--quiet", "-am", "two")
	for _, ref := range []string{"", "refs/heads/main"} {
		a := collecting(repo, commit, "git rev-parse HEAD; cat file; echo more >> file")
		a.Source.Ref = ref
		k := f.assign(a)
		require.Equal(t, "succeeded", f.ended(k).Outcome, f.log(k))
		require.Equal(t, commit+"\ncontent\n", f.log(k))
		diff, _ := f.kept(k, changedFile)
		require.Contains(t, diff, " content\n+more\n")
	}
}

// A gitHost serves repositories over HTTP to those who have its password, and counts the requests
// of each service.
type gitHost struct {
	mu     sync.Mutex
	counts map[string]int
}

// serveGit serves the repository in dir, and returns its address with the credential.
func serveGit(t *testing.T, dir, password string) (*gitHost, string) {
	t.Helper()
	h := &gitHost{counts: map[string]int{}}
	backend := filepath.Join(gitIn(t, dir, "", "--exec-path"), "git-http-backend")
	gitIn(t, dir, "", "config", "http.receivepack", "true")
	git := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, got, _ := r.BasicAuth()
		h.mu.Lock()
		switch {
		case strings.Contains(r.URL.String(), "receive-pack"):
			h.counts["push"]++
		case got == password:
			h.counts["fetch"]++
		default:
			h.counts["stranger"]++
		}
		h.mu.Unlock()
		if got != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	u.User = url.UserPassword("reader", password)
	return h, u.String() + "/.git"
}

// A job with everything of an agent finds no credential of the code host, and its push is refused without one.
func TestR1JobsHaveNoCredentialOfTheHost(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	start(t, f.enrolled(), func(c *Config) { c.GitProtocols = "http" })
	repo, commit := repository(t)
	const password = "read-only-credential-4711"
	host, address := serveGit(t, repo, password)
	for _, kind := range []string{sandbox.Bubblewrap, sandbox.None} {
		a := collecting(repo, commit, `found=no
			env | grep -q credential-47[1]1 && found=env
			grep -rqs credential-47[1]1 .git "$HOME" "${TMPDIR:-/tmp}" "$SVC_IN" "$SVC_OUT" && found=files
			for p in self 1 $PPID; do cat /proc/$p/environ /proc/$p/cmdline 2>/dev/null | grep -qa credential-47[1]1 && found=/proc/$p; done
			git config --list --show-origin | grep -qs 47[1]1 && found=config
			echo "found $found"; git remote -v
			echo evil >> file; git -c user.name=a -c user.email=a@a commit -qam evil
			GIT_TERMINAL_PROMPT=0 git push origin HEAD:refs/heads/evil && echo pushed || echo refused`)
		a.Source.URL, a.Input, a.Sandbox = address, []byte("{}"), wire.Sandbox{Kind: kind, Network: "host"}
		k := f.assign(a)
		require.Equal(t, "succeeded", f.ended(k).Outcome, f.log(k))
		require.Contains(t, f.log(k), "found no\n")
		require.Contains(t, f.log(k), "refused\n")
		require.NotContains(t, f.log(k), "4711")
		diff, _ := f.kept(k, changedFile)
		require.Contains(t, diff, "\n+evil\n", "and its work is kept")
	}
	host.mu.Lock()
	defer host.mu.Unlock()
	require.Positive(t, host.counts["fetch"], "the runner fetched with it")
	require.NotContains(t, gitIn(t, repo, "", "branch", "--list"), "evil")
	for _, file := range filesWith(t, repo, password) {
		t.Error("the credential is in", file)
	}
}
