package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

var commitPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// checkSource refuses values that git might take for an option or for a command to run, and refs that no repository
// can have. It writes the commit in lower case.
func checkSource(ctx context.Context, s *wire.Source, protocols string) error {
	s.Commit = strings.ToLower(s.Commit)
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return fmt.Errorf("the repository's address cannot be read")
	case !slices.Contains(strings.Split(protocols, ":"), u.Scheme):
		return fmt.Errorf("this runner does not fetch repositories by %q", u.Scheme)
	case s.Commit != "" && !commitPattern.MatchString(s.Commit):
		return fmt.Errorf("the commit is not a full hash")
	case s.Ref != "" && !strings.HasPrefix(s.Ref, "refs/"):
		return fmt.Errorf("the ref does not begin with refs/")
	case s.Ref == "" && s.Commit == "":
		return fmt.Errorf("the source names neither commit nor ref")
	}
	if _, err := exec.LookPath("git"); err != nil {
		return fmt.Errorf("find git: %w", err)
	}
	if s.Ref != "" && exec.CommandContext(ctx, "git", "check-ref-format", s.Ref).Run() != nil {
		return fmt.Errorf("git allows no ref to be named %q", s.Ref)
	}
	return nil
}

// checkout fetches the commit into the working directory. Git runs outside of the sandbox as the
// runner's user, with a home of the job's own and without anybody's hooks or configuration.
func (x *execution) checkout(killed, stopping context.Context) wire.Event {
	s := x.Spec.Source
	if err := checkSource(killed, s, x.GitProtocols); err != nil {
		x.notice("check out: " + err.Error())
		return wire.Event{Outcome: failed, Reason: "checkout_failed"}
	}
	address, env := x.gitEnv(s.URL)
	what, want, other := s.Ref, "FETCH_HEAD", ""
	if s.Commit != "" {
		what, want, other = s.Commit, s.Commit, s.Ref
	}
	lfs := lfsScript
	if x.Spec.Collect { // files of Git LFS would be among the changes
		lfs = ""
	}
	var e wire.Event
	var said string
	for _, format := range objectFormats(s.Commit) {
		e, said = x.runGit(killed, stopping, append(env, "GIT_DEFAULT_HASH="+format), checkoutScript, address, what, want, other, lfs)
		if !otherFormat.MatchString(said) || format == "sha256" {
			break
		}
		x.out.note("the repository has another object format: fetching it again")
	}
	if e.Outcome != succeeded {
		return checkoutFailure(e, said)
	}
	if s.Commit == "" {
		return x.reportCommit()
	}
	return wire.Event{Outcome: succeeded}
}

// reportCommit reports which commit the ref is, and sets it in the environment of the steps.
func (x *execution) reportCommit() wire.Event {
	commit, err := x.headCommit()
	if err != nil {
		x.notice("check out: " + err.Error())
		return wire.Event{Outcome: Infra, Reason: "checkout_failed"}
	}
	if x.Spec.Env == nil {
		x.Spec.Env = map[string]string{}
	}
	x.Spec.Env["SVC_COMMIT"] = commit
	_ = x.report.event(wire.Event{Kind: wire.EventCheckedOut, Commit: commit}) // if this fails so does the report of the job's end
	return wire.Event{Outcome: succeeded}
}

// headCommit returns what checkoutScript has written to headFile.
func (x *execution) headCommit() (string, error) {
	root, err := os.OpenRoot(x.job.Work())
	if err != nil {
		return "", fmt.Errorf("open working directory: %w", err)
	}
	defer root.Close()
	text, err := root.ReadFile(headFile)
	if err != nil {
		return "", fmt.Errorf("read which commit it is: %w", err)
	}
	commit := strings.TrimSpace(string(text))
	if !commitPattern.MatchString(commit) {
		return "", fmt.Errorf("read which commit it is: %.80q is no hash", commit)
	}
	return commit, nil
}

// objectFormats returns the formats that a repository may have, the likely one first.
func objectFormats(commit string) []string {
	switch len(commit) {
	case 40:
		return []string{"sha1"}
	case 64:
		return []string{"sha256"}
	}
	return []string{"sha1", "sha256"}
}

// otherFormat matches what git says if a repository has another object format than it was made for.
var otherFormat = regexp.MustCompile(`mismatched algorithms: client`)

// headFile is where checkoutScript writes the commit that it has checked out.
const headFile = ".git/svc-commit"

// checkoutScript has as arguments an address, what to fetch, what to check out, another ref to fetch in case that the
// server does not allow to fetch a commit, or "", and lfsScript or "". It is one command for the sandbox, since
// starting one takes as long as git. The repository's own password is for no submodule: their addresses
// are chosen by whoever writes to the repository.
const checkoutScript = `rm -rf .git
git init --quiet --template= . && git remote add origin "$1" || exit
fetch='git fetch --quiet --no-tags --no-recurse-submodules'
$fetch --depth=1 "$1" "$2" || { code=$?; test -n "$4" || exit $code; $fetch "$1" "$4"; } || exit
git checkout --quiet --detach "$3" && git rev-parse --verify HEAD >` + headFile + ` || exit
if test -f .gitmodules; then
	(unset SVC_GIT_USER SVC_GIT_PASSWORD; exec git submodule --quiet update --init --recursive --checkout --depth=1) || exit
fi
test -n "$5" || exit 0
if test -f .gitmodules; then
	(unset SVC_GIT_USER SVC_GIT_PASSWORD; exec git submodule --quiet foreach --recursive "$5") || exit
fi
eval "$5"`

// lfsScript replaces the pointers of Git LFS in a checkout by the files. They come from the repository's own address,
// whatever its .lfsconfig says.
const lfsScript = `if git grep --quiet --cached -e '^version https://git-lfs.github.com/spec/v1' -- ':(attr:filter=lfs)'; then
	command -v git-lfs >/dev/null ||
		{ echo 'fatal: the repository has files of Git LFS, and git-lfs is not installed on this machine'; exit 1; }
	url=$(git config remote.origin.url)
	case $url in http*) url=${url%/}; url=${url%.git}.git/info/lfs ;; esac
	git lfs install --local --skip-repo >/dev/null && git -c lfs.url="$url" lfs pull || exit
fi`

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
		return wire.Event{Outcome: Infra, Reason: "checkout_failed"}, ""
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

// finalGitErrors matches what git says if no later attempt would do better: the ref, the commit, or a
// submodule's does not exist or cannot be checked out, or the host does not let us in.
var finalGitErrors = regexp.MustCompile(`(?i)couldn't find remote ref|not our ref|unadvertised object|reference is not a tree|` +
	`non-commit|unable to read tree|not a valid object|invalid refspec|invalid path|mismatched algorithms|` +
	`authentication failed|could not read (username|password)|permission denied \(|access denied or repository not exported|` +
	`returned error: (400|401|403|404|405|410|451)\b|repository .*not found|does not appear to be a git repository|fsck error|` +
	`no url found for submodule|but it did not contain|transport '.*' not allowed|git-lfs is not installed|` +
	`\[404\]|object does not exist on the server`)

// checkoutFailure returns the end of a job whose checkout failed. Unless git says that it can never
// succeed, it is a failure of the machine, since another one may reach the host. A job that was
// stopped keeps its outcome.
func checkoutFailure(e wire.Event, said string) wire.Event {
	if e.SignalReason != "" {
		return e
	}
	e.Outcome, e.Reason = Infra, "checkout_failed"
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
		"GIT_LFS_SKIP_SMUDGE=1", "HOME=" + x.job.Home(), "LANG=C.UTF-8", sandbox.Marker + "=" + x.Name,
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
			`!f() { test "$1" = get && test -n "$SVC_GIT_USER$SVC_GIT_PASSWORD" && ` +
				`printf 'username=%s\npassword=%s\n' "$SVC_GIT_USER" "$SVC_GIT_PASSWORD"; }; f`})
	}
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(set)))
	for i, kv := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return u.String(), env
}
