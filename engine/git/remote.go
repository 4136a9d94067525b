package git

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"svc/config"
	"svc/engine/client"
)

// A Remote is a repository at a code host.
type Remote struct {
	URL   string
	Token config.Secret // "" for none; user:password if it has a colon

	// Resolve returns the addresses at which git may find a host, an error if it may find it at none. Nil
	// allows all addresses, and http: for development.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// tokenUser is the user name of tokens without one. GitHub asks for it, other hosts ignore it.
const tokenUser = "x-access-token"

// Secrets returns the texts that must not be seen because they have the token.
func (r Remote) Secrets() []string {
	if r.Token == "" {
		return nil
	}
	user, password := r.login()
	return []string{password, user + ":" + password, base64.StdEncoding.EncodeToString([]byte(user + ":" + password))}
}

func (r Remote) login() (user, password string) {
	if user, password, ok := strings.Cut(r.Token.Reveal(), ":"); ok {
		return user, password
	}
	return tokenUser, r.Token.Reveal()
}

// environment returns the variables by which git reaches the remote.
func (r Remote) environment(ctx context.Context) ([]string, error) {
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository, Message: "The repository's address is not usable."}
	}
	set := append([][2]string{}, settings...)
	switch {
	case u.Scheme == "https":
		set = append(set, [2]string{"protocol.https.allow", "always"})
	case u.Scheme == "http" && r.Resolve == nil:
		set = append(set, [2]string{"protocol.http.allow", "always"})
	default:
		return nil, &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: "The repository's address has to begin with https://."}
	}
	if r.Resolve != nil {
		pin, err := r.pin(ctx, u)
		if err != nil {
			return nil, err
		}
		if pin != "" {
			set = append(set, [2]string{"http.curloptResolve", pin})
		}
	}
	var env []string
	if r.Token != "" {
		user, password := r.login()
		env = append(env, "SVC_GIT_USER="+user, "SVC_GIT_PASSWORD="+password)
		// The header spares asking twice. If the host refuses it, git says so better with a helper.
		login := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		set = append(set, [2]string{"http." + u.Scheme + "://" + u.Host + "/.extraHeader", "Authorization: Basic " + login})
		set = append(set, [2]string{"credential." + u.Scheme + "://" + u.Host + ".helper",
			`!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$SVC_GIT_USER" "$SVC_GIT_PASSWORD"; }; f`})
	}
	return append(env, configuration(set)...), nil
}

// pin returns the setting that makes git connect to the addresses that were checked, and no others; "" if the host is an
// address itself.
func (r Remote) pin(ctx context.Context, u *url.URL) (string, error) {
	addresses, err := r.Resolve(ctx, u.Hostname())
	if err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return "", nil
	}
	var texts []string
	for _, a := range addresses {
		if a.Is6() {
			texts = append(texts, "["+a.String()+"]")
		} else {
			texts = append(texts, a.String())
		}
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	host, _, err := net.SplitHostPort(net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return "", fmt.Errorf("the repository's host: %w", err)
	}
	return host + ":" + port + ":" + strings.Join(texts, ","), nil
}

// Heads returns the commits of branches at the remote. Those that do not exist, or have no name, are absent.
func (r Remote) Heads(ctx context.Context, branches ...string) (map[string]string, error) {
	var refs []string
	for _, b := range branches {
		if b == "" {
			continue
		}
		if !ValidBranch(b) {
			return nil, invalidBranch(b)
		}
		refs = append(refs, "refs/heads/"+b)
	}
	if len(refs) == 0 {
		return nil, nil
	}
	return r.list(ctx, refs)
}

// HeadsBelow returns the commits of all branches in a folder, such as "run".
func (r Remote) HeadsBelow(ctx context.Context, folder string) (map[string]string, error) {
	if !ValidBranch(folder) {
		return nil, invalidBranch(folder)
	}
	return r.list(ctx, []string{"refs/heads/" + folder + "/*"})
}

// list returns the commits of the branches that match patterns of ls-remote.
func (r Remote) list(ctx context.Context, patterns []string) (map[string]string, error) {
	env, err := r.environment(ctx)
	if err != nil {
		return nil, err
	}
	text, err := run(ctx, command{args: append([]string{"ls-remote", "--refs", "--quiet", r.URL}, patterns...), env: env})
	if err != nil {
		return nil, remoteError(err)
	}
	heads := map[string]string{}
	for line := range strings.Lines(text) {
		if id, ref, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && ValidCommit(id) {
			heads[strings.TrimPrefix(ref, "refs/heads/")] = id
		}
	}
	return heads, nil
}

var (
	commitPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	branchPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/+@#=,-]{0,200}$`)
)

// ValidCommit reports whether text is a whole commit id.
func ValidCommit(text string) bool { return commitPattern.MatchString(text) }

// ValidBranch reports whether name is the name of a branch that commands can carry.
func ValidBranch(name string) bool {
	return branchPattern.MatchString(name) && !strings.Contains(name, "..") && !strings.Contains(name, "//") &&
		!strings.Contains(name, "/.") && !strings.HasSuffix(name, ".lock") && !strings.HasSuffix(name, "/") &&
		!strings.HasSuffix(name, ".") && !strings.Contains(name, "@{") && !strings.Contains(name, ".lock/")
}

func invalidBranch(name string) error {
	return &client.Failure{Class: client.Permanent, Code: client.CodeHostRefused,
		Message: fmt.Sprintf("The branch name %q may not be used.", name)}
}

// A meaning is what words of git or of the host mean for a step.
type meaning struct {
	said  string // pattern
	class client.Class
	code  string
	text  string
}

// meanings are tried in order.
var meanings = []meaning{
	{`refusing to allow`, client.Permanent, client.CodeHostRefused, "The code host does not allow this to the credential"},
	{`authentication failed|could not read (username|password)|returned error: (401|403)\b|permission (to|denied)|access denied`,
		client.Surroundings, client.CodeCredential, "The code host refuses the credential"},
	{`returned error: 429\b|rate limit`, client.Transient, client.CodeHostLimited, "The code host takes no more requests for now"},
	{`repository .*not found|returned error: (3\d\d|404|410)\b|does not appear to be a git repository|update url base from redirection`,
		client.Surroundings, client.CodeNoRepository, "The code host has no such repository for the credential"},
	{`couldn't find remote ref|not our ref|unadvertised object|no such remote ref`,
		client.Permanent, client.CodeMissingCommit, "The repository does not have a commit or branch of this step"},
	{`stale info|fetch first|non-fast-forward|cannot lock ref|failed to update ref|reference already exists|but expected`,
		client.Permanent, client.CodeHeadMoved, "The branch is not where it is expected"},
	{`remote rejected|protected branch|hook declined|fsck error|deny updating`,
		client.Permanent, client.CodeHostRefused, "The code host refuses the push"},
	{`returned error: 5\d\d\b|could not resolve|failed to connect|couldn't connect|connection (refused|reset|timed out)|timed out|timeout|` +
		`early eof|unexpected|rpc failed|hung up|empty reply|ssl|gnutls|operation too slow|unable to access|invalid index-pack output|` +
		`expected (flush|'packfile')|protocol error`, client.Transient, client.CodeHostAway, "The code host does not answer"},
}

// matches are the patterns of meanings, in any case of letters.
var matches = func() (list []*regexp.Regexp) {
	for _, m := range meanings {
		list = append(list, regexp.MustCompile(`(?i)`+m.said))
	}
	return list
}()

// limitedSeconds is how long to wait for a host that limits requests: git does not pass on what it says.
const limitedSeconds = 60

// remoteError turns the error of a command that spoke to a code host into a [*client.Failure] if its
// words tell what it is.
func remoteError(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	for i, m := range meanings {
		if !matches[i].MatchString(e.Said + e.Output) {
			continue
		}
		f := &client.Failure{Class: m.class, Code: m.code, Message: m.text + ": " + e.words()}
		if m.code == client.CodeHostLimited {
			f.RetryAfter = limitedSeconds
		}
		return f
	}
	return err
}

// words returns what the host said, or else git, in at most maxWords bytes.
func (e *Error) words() string {
	var lines []string
	for line := range strings.Lines(e.Said + "\n" + e.Output) {
		line = strings.TrimSpace(line)
		for _, prefix := range []string{"remote:", "error:", "fatal:", "!"} {
			if text, ok := strings.CutPrefix(line, prefix); ok && strings.TrimSpace(text) != "" {
				lines = append(lines, strings.Join(strings.Fields(text), " "))
			}
		}
	}
	if lines == nil {
		return "exit status of git: " + fmt.Sprint(e.Code)
	}
	text := strings.Join(lines, " / ")
	return strings.ToValidUTF8(text[:min(len(text), maxWords)], "")
}

const maxWords = 600

// Default returns the default branch of the remote, "" if it does not say, and whether it has any branch.
func (r Remote) Default(ctx context.Context) (branch string, some bool, err error) {
	env, err := r.environment(ctx)
	if err != nil {
		return "", false, err
	}
	text, err := run(ctx, command{args: []string{"ls-remote", "--symref", "--quiet", r.URL, "HEAD", "refs/heads/*"}, env: env})
	if err != nil {
		return "", false, remoteError(err)
	}
	for line := range strings.Lines(text) {
		what, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if head, ok := strings.CutPrefix(what, "ref: refs/heads/"); ok && name == "HEAD" {
			branch = head
			continue
		}
		some = true
	}
	return branch, some, nil
}
