package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

var (
	commitPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	refPattern    = regexp.MustCompile(`^refs/[A-Za-z0-9_][A-Za-z0-9._/+@-]*$`)
)

// checkSource refuses values that git might take for an option or for a command to run.
func checkSource(s *wire.Source, protocols string) error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return fmt.Errorf("the repository's address cannot be read")
	case !slices.Contains(strings.Split(protocols, ":"), u.Scheme):
		return fmt.Errorf("this runner does not fetch repositories by %q", u.Scheme)
	case s.Commit != "" && !commitPattern.MatchString(s.Commit):
		return fmt.Errorf("the commit is not a full hash")
	case s.Ref != "" && (!refPattern.MatchString(s.Ref) || strings.Contains(s.Ref, "..")):
		return fmt.Errorf("the ref may not be fetched")
	case s.Ref == "" && s.Commit == "":
		return fmt.Errorf("the source names neither commit nor ref")
	}
	if _, err := exec.LookPath("git"); err != nil {
		return fmt.Errorf("find git: %w", err)
	}
	return nil
}

// checkout fetches the commit into the working directory. Git runs outside of the sandbox as the
// runner's user, with a home of the job's own and without anybody's hooks or configuration.
func (x *execution) checkout(killed, stopping context.Context) wire.Event {
	s := *x.Spec.Source
	if err := checkSource(&s, x.GitProtocols); err != nil {
		x.notice("check out: " + err.Error())
		return wire.Event{Outcome: failed, Reason: "checkout_failed"}
	}
	address, env := x.gitEnv(s.URL)
	what, want := s.Ref, "FETCH_HEAD"
	if s.Commit != "" {
		what, want = s.Commit, s.Commit
	}
	e, said := x.runGit(killed, stopping, env, checkoutScript, address, what, want)
	if e.Outcome == failed && e.SignalReason == "" && s.Ref != "" && s.Commit != "" { // the server may not allow to fetch a commit
		e, said = x.runGit(killed, stopping, env, refScript, address, s.Ref, want)
	}
	if e.Outcome == succeeded {
		return wire.Event{Outcome: succeeded}
	}
	return checkoutFailure(e, said)
}

// The scripts of a checkout have an address, what to fetch and what to check out as arguments. Each is one command for the
// sandbox, since starting one takes as long as git.
const (
	checkoutScript = `git init --quiet --template= . && git remote add origin "$1" &&
git fetch --quiet --no-tags --no-recurse-submodules --depth=1 "$1" "$2" && exec git checkout --quiet --detach "$3"`
	refScript = `git fetch --quiet --no-tags --no-recurse-submodules "$1" "$2" && exec git checkout --quiet --detach "$3"`
)

// runGit runs a script of git commands. It returns how it ended, and the end of what it wrote.
func (x *execution) runGit(killed, stopping context.Context, env []string, script string, args ...string) (wire.Event, string) {
	var end tail
	masked := x.masks.NewWriter(io.MultiWriter(x.out, &end))
	r, err := x.job.Run(killed, stopping, sandbox.Command{
		Args: append([]string{"sh", "-c", script, "git"}, args...), Env: env, Output: masked, Unsandboxed: true,
	})
	err = errors.Join(err, masked.Close())
	x.out.flush()
	x.cpu += r.CPU
	x.maxRSS = max(x.maxRSS, r.MaxRSS)
	if err != nil {
		x.notice("check out: " + err.Error())
		return wire.Event{Outcome: infra, Reason: "checkout_failed"}, ""
	}
	return endOf(r, true), string(end)
}

// A tail keeps the end of what is written.
type tail []byte

const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p[max(0, len(p)-tailBytes):]...)
	*t = (*t)[max(0, len(*t)-tailBytes):]
	return len(p), nil
}

// finalGitErrors matches what git says if no other machine and no later attempt would do better: the
// ref or commit does not exist, or the host does not let us in.
var finalGitErrors = regexp.MustCompile(`(?i)couldn't find remote ref|not our ref|unadvertised object|reference is not a tree|` +
	`unable to read tree|not a valid object|authentication failed|could not read (username|password)|permission denied \(|` +
	`returned error: (401|403|404)\b|repository .*not found|does not appear to be a git repository|fsck error`)

// checkoutFailure returns the end of a job whose checkout failed. Unless git says that it can never
// succeed, it is a failure of the machine, since another one may reach the host. A job that was
// stopped keeps its outcome.
func checkoutFailure(e wire.Event, said string) wire.Event {
	if e.SignalReason != "" {
		return e
	}
	e.Outcome, e.Reason = infra, "checkout_failed"
	if finalGitErrors.MatchString(said) {
		e.Outcome = failed
	}
	return e
}

// gitEnv returns the URL without user and password, and the variables by which git sends them to
// that host alone. They are in no command line and no file.
func (x *execution) gitEnv(address string) (string, []string) {
	u, err := url.Parse(address)
	if err != nil {
		return "", nil // checkSource has parsed it
	}
	env := []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=",
		"GIT_ALLOW_PROTOCOL=" + x.GitProtocols,
		"GIT_LFS_SKIP_SMUDGE=1", "HOME=" + x.job.Home(), "LANG=C.UTF-8", sandbox.Marker + "=" + x.name(),
	}
	for _, v := range x.job.Env() {
		if strings.HasPrefix(v, "PATH=") {
			env = append(env, v)
		}
	}
	env = append(env, x.Network.without(nil)...)
	set := [][2]string{
		{"core.hooksPath", "/dev/null"}, {"protocol.ext.allow", "never"}, {"advice.detachedHead", "false"},
		{"init.defaultBranch", "main"}, {"transfer.fsckObjects", "true"}, {"core.symlinks", "true"}, {"gc.auto", "0"},
		{"safe.directory", "*"},
	}
	if u.User != nil {
		password, _ := u.User.Password()
		env = append(env, "SVC_GIT_USER="+u.User.Username(), "SVC_GIT_PASSWORD="+password)
		u.User = nil
		set = append(set, [2]string{"credential." + u.Scheme + "://" + u.Host + ".helper",
			`!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$SVC_GIT_USER" "$SVC_GIT_PASSWORD"; }; f`})
	}
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(set)))
	for i, kv := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return u.String(), env
}
