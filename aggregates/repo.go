package aggregates

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// The reasons for which a command about a repository is refused.
var (
	ErrNoRepo        = fault.New(fault.NotFound, "repo_not_found", "The workspace has no such repository.")
	ErrRepoConnected = fault.New(fault.Conflict, "repo_already_connected", "The workspace is connected with this repository already.")
	ErrRepoPaused    = fault.New(fault.Conflict, "repo_paused", "The repository is paused. Resume it first.")
	ErrRepoName      = fault.New(fault.Conflict, "repo_name_mismatch", "This is not the repository's name.")
)

// A Repo is the fold of a repository's stream. A copy of it stays as it is.
type Repo struct {
	connected bool
	name      string
	host      events.RepoHost
	settings  events.RepoSettings
	write     events.ID
	read      events.ID
	hook      events.ID
	paused    *events.RepoPaused
	checked   *events.RepoChecked
	missed    []events.ID // jobs to which the implementer was not available, since it last was
	tried     events.RepoImplementerTried
}

// Apply adds one event.
func (r *Repo) Apply(e events.Event, _ events.Actor) {
	switch e := e.(type) {
	case events.RepoConnected:
		*r = Repo{
			connected: true, name: e.Name, host: e.Host, settings: e.Settings, write: e.Credential, read: e.ReadCredential,
		}
	case events.RepoChecked:
		r.checked = &e
	case events.RepoSettingsChanged:
		r.settings = e.To
		r.forgetTries()
	case events.RepoCredentialReplaced:
		if e.Which == events.ReadCredential {
			r.read = e.Value
		} else {
			r.write = e.Value
		}
	case events.RepoHookSet:
		r.hook = e.Hook
	case events.RepoPaused:
		r.paused = &e
	case events.RepoResumed:
		r.paused = nil
		r.forgetTries()
	case events.RepoImplementerTried:
		if r.tried = e; e.Unavailable == "" {
			r.forgetTries()
		} else {
			r.missed = append(r.missed, e.Job)
		}
	case events.RepoRenamed:
		r.name, r.host = e.To, e.Host
	case events.RepoDisconnected:
		r.connected = false
	}
}

// Connected reports whether runs may work on the repository. A repository that was disconnected keeps its other state.
func (r *Repo) Connected() bool { return r.connected }

// Known reports whether the repository was ever connected.
func (r *Repo) Known() bool { return r.name != "" }

// Name returns the repository's name at its host, such as owner/name.
func (r *Repo) Name() string { return r.name }

// Host returns where the repository is.
func (r *Repo) Host() events.RepoHost { return r.host }

// Settings returns how runs work on the repository. Callers must not change its slices.
func (r *Repo) Settings() events.RepoSettings { return r.settings }

// Paused returns why no run works on the repository for now. ok is false if runs may.
func (r *Repo) Paused() (why events.RepoPaused, ok bool) {
	if r.paused == nil {
		return events.RepoPaused{}, false
	}
	return *r.paused, true
}

// Credential returns the vault's id of a credential's value, or the zero ID if there is none.
func (r *Repo) Credential(kind events.CredentialKind) events.ID {
	if kind == events.ReadCredential {
		return r.read
	}
	return r.write
}

// Hook returns the id of the repository's hook, under which the vault has its secret, or the zero ID if it has none.
func (r *Repo) Hook() events.ID { return r.hook }

// Connect connects the repository, with its settings completed by defaults.
func (r *Repo) Connect(e events.RepoConnected, checks ...events.RepoCheck) (list []events.Event, err error) {
	if r.Known() {
		return nil, ErrRepoConnected
	}
	if err := checkRepoHost(e.Name, e.Host); err != nil {
		return nil, err
	}
	if e.Credential.IsZero() && e.Host.Kind != events.HostGit {
		return nil, fault.Field("credential", "is needed to push and to open pull requests")
	}
	if e.Settings, err = CheckRepoSettings("settings.", e.Host.Kind, e.Settings); err != nil {
		return nil, err
	}
	list = []events.Event{e}
	if len(checks) > 0 {
		list = append(list, checkedEvent(checks))
	}
	return list, nil
}

// ChangeSettings gives the repository other settings, completed by defaults.
func (r *Repo) ChangeSettings(to events.RepoSettings) ([]events.Event, error) {
	if !r.connected {
		return nil, ErrNoRepo
	}
	to, err := CheckRepoSettings("", r.host.Kind, to)
	if err != nil || reflect.DeepEqual(to, r.settings) {
		return nil, err
	}
	return oneEvent(events.RepoSettingsChanged{From: r.settings, To: to})
}

// maxRepoChecks bounds the findings of a check that are kept.
const maxRepoChecks = 50

// checkedPauses are the pauses whose causes a probe looks for.
var checkedPauses = []events.PauseCode{events.PauseCredential, events.PauseIdentity, events.PauseUnhealthy}

// RecordCheck records what a probe found, if it differs from what the one before found. If all is well, a pause because
// of what it looks for is over.
func (r *Repo) RecordCheck(checks []events.RepoCheck) ([]events.Event, error) {
	if !r.connected {
		return nil, ErrNoRepo
	}
	e := checkedEvent(checks)
	var list []events.Event
	if r.checked == nil || !reflect.DeepEqual(*r.checked, e) {
		list = append(list, e)
	}
	if e.OK && r.paused != nil && slices.Contains(checkedPauses, r.paused.Code) {
		list = append(list, events.RepoResumed{})
	}
	return list, nil
}

// checkedEvent returns the findings with their texts cleaned: they contain words of the code host.
func checkedEvent(checks []events.RepoCheck) events.RepoChecked {
	e := events.RepoChecked{OK: true, Checks: []events.RepoCheck{}}
	for _, c := range checks {
		e.OK = e.OK && c.Status != events.CheckLacking
		if len(e.Checks) == maxRepoChecks {
			continue
		}
		c.Check, c.Status = cleanFinding(c.Check), cleanFinding(c.Status)
		c.Text, c.Remedy = cleanFinding(c.Text), cleanFinding(c.Remedy)
		if _, err := webAddress(c.URL); err != nil {
			c.URL = ""
		}
		e.Checks = append(e.Checks, c)
	}
	return e
}

func cleanFinding(text string) string {
	return input.Truncate(input.MaskTokens(input.CleanText(text)), 500)
}

// ReplaceCredential gives a credential a new value; the zero ID takes it away. A pause for a credential that the
// code host refused ends.
func (r *Repo) ReplaceCredential(which events.CredentialKind, value events.ID) ([]events.Event, error) {
	switch {
	case !r.connected:
		return nil, ErrNoRepo
	case which != events.WriteCredential && which != events.ReadCredential:
		return nil, fault.Field("which", "must be write or read")
	case value.IsZero() && which == events.WriteCredential && r.host.Kind != events.HostGit:
		return nil, fault.Field("credential", "is needed to push and to open pull requests")
	case value == r.Credential(which):
		return nil, nil
	}
	list := []events.Event{events.RepoCredentialReplaced{Which: which, Value: value}}
	if r.paused != nil && r.paused.Code == events.PauseCredential {
		list = append(list, events.RepoResumed{})
	}
	return list, nil
}

// SetHook gives the repository a hook, instead of the one that it had.
func (r *Repo) SetHook(id events.ID) ([]events.Event, error) {
	if !r.connected {
		return nil, ErrNoRepo
	}
	return oneEvent(events.RepoHookSet{Hook: id})
}

// maxPauseReason is how many bytes the reason of a pause has at most.
const maxPauseReason = 1000

// Pause stops work on the repository. A person's pause replaces one of the service, whose cause may pass, but not
// the other way round.
func (r *Repo) Pause(reason string, code events.PauseCode) ([]events.Event, error) {
	reason = input.CleanText(reason)
	switch {
	case !r.connected:
		return nil, ErrNoRepo
	case code == "" && input.Blank(reason):
		return nil, fault.Field("reason", "must say why")
	case len(reason) > maxPauseReason:
		return nil, fault.Field("reason", "must have %d bytes or less", maxPauseReason)
	case r.paused != nil && (r.paused.Code == "" || r.paused.Code == code):
		return nil, nil
	}
	if code != "" {
		reason = input.MaskTokens(reason)
	}
	if err := input.NoTokens(map[string]string{"reason": reason}); err != nil {
		return nil, err
	}
	return oneEvent(events.RepoPaused{Reason: reason, Code: code})
}

// Resume ends a pause.
func (r *Repo) Resume() ([]events.Event, error) {
	switch {
	case !r.connected:
		return nil, ErrNoRepo
	case r.paused == nil:
		return nil, nil
	}
	return oneEvent(events.RepoResumed{})
}

const (
	maxMissed  = 3           // jobs in a row to which the implementer may be unavailable
	firstRetry = time.Minute // after the first of them; four times as long after each further one
	lastRetry  = time.Hour
)

// Missed returns why the implementer is not available at present, and until when nobody tries it.
func (r *Repo) Missed() (why string, until time.Time) { return r.tried.Unavailable, r.tried.RetryAt }

func (r *Repo) forgetTries() { r.missed, r.tried = nil, events.RepoImplementerTried{} }

// NoteImplementer records why the implementer was not available to a job of a run, or with why "" that it is again. The
// third time in a row pauses the repository.
func (r *Repo) NoteImplementer(run, job events.ID, why string, now time.Time) ([]events.Event, error) {
	switch n := len(r.missed); {
	case !r.connected:
		return nil, ErrNoRepo
	case why == "" && n == 0, why != "" && slices.Contains(r.missed, job):
		return nil, nil
	case why == "":
		return oneEvent(events.RepoImplementerTried{Run: run, Job: job})
	default:
		why = cleanFinding(why)
		list := []events.Event{events.RepoImplementerTried{
			Run: run, Job: job, Unavailable: why, RetryAt: now.Add(min(firstRetry<<min(2*n, 10), lastRetry)),
		}}
		if n+1 < maxMissed || r.paused != nil {
			return list, nil
		}
		reason := fmt.Sprintf("The implementer was not available %d times in a row. %s", n+1, why)
		return append(list, events.RepoPaused{Reason: reason, Code: events.PauseInfrastructure}), nil
	}
}

// Rename records another name or other addresses of the repository at its host.
func (r *Repo) Rename(name string, host events.RepoHost) ([]events.Event, error) {
	switch {
	case !r.connected:
		return nil, ErrNoRepo
	case name == r.name && host == r.host:
		return nil, nil
	}
	if err := checkRepoHost(name, host); err != nil {
		return nil, err
	}
	return oneEvent(events.RepoRenamed{From: r.name, To: name, Host: host})
}

// Disconnect ends work on the repository for good. name has to be the repository's.
func (r *Repo) Disconnect(name string) ([]events.Event, error) {
	switch {
	case !r.connected:
		return nil, ErrNoRepo
	case name != r.name:
		return nil, ErrRepoName
	}
	return oneEvent(events.RepoDisconnected{Name: r.name})
}

const (
	maxRepoName = 200 // bytes
	maxAddress  = 500 // bytes of a URL
	maxHostID   = 100
)

// repoName is the form of a repository's name: two or more parts of a path.
var repoName = input.Form{
	Pattern: regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+$`),
	Rule:    "be owner/name, of letters, digits, dots, underscores and hyphens",
}

// checkRepoHost checks name and addresses of a repository.
func checkRepoHost(name string, h events.RepoHost) error {
	c := &repoCheck{}
	c.Matches(repoName, "name", name)
	c.Must(len(name) <= maxRepoName, "name", "have %d bytes at most", maxRepoName)
	dots := func(part string) bool { return part == "." || part == ".." }
	c.Must(!slices.ContainsFunc(strings.Split(name, "/"), dots), "name", "%s", repoName.Rule)
	c.OneOf(string(h.Kind), "kind", events.HostKinds...)
	c.address("url", h.Clone)
	if h.Kind != events.HostGit || h.API != "" {
		c.address("apiUrl", h.API)
	}
	if h.Kind != events.HostGit || h.Web != "" {
		c.address("webUrl", h.Web)
	}
	c.Text("hostId", h.ID, maxHostID)
	return c.Err()
}

type repoCheck struct{ input.Check }

func (c *repoCheck) address(field, text string) {
	u, err := webAddress(text)
	c.Must(err == nil, field, "be the address of a repository, such as https://github.com/acme/web, without user, password and query")
	c.Must(u == nil || !input.URLHasToken(u), field, "not hold a service token")
}

// webAddress parses an address of HTTP without anything secret in it.
func webAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.User != nil, u.RawQuery != "" || u.ForceQuery,
		u.Fragment != "", len(text) > maxAddress, input.CleanText(text) != text:
		return nil, fault.ErrValidation
	}
	return u, nil
}
