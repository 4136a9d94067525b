package aggregates

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

var (
	gitHub = events.RepoHost{
		Kind: events.HostGitHub, API: "https://api.github.com", Web: "https://github.com/acme/web", Clone: "https://github.com/acme/web.git",
	}
	gitOnly = events.RepoHost{Kind: events.HostGit, Clone: "https://git.acme.example/acme/web.git"}

	repoDefaults = events.RepoSettings{
		Branch: "main", Implementer: events.Implementer{Kind: events.ImplementerPatch}, RequiredJobs: []events.RequiredJob{},
		ProtectedPaths: []string{}, Landing: events.LandByHost, Method: events.MergeCommit, MaxActive: 5, Rounds: 3, MaxFiles: 50, MaxLines: 1500,
	}
	connectedEvent = events.RepoConnected{Name: "acme/web", Host: gitHub, Credential: id(70), Settings: repoDefaults}
	connectedRepo  = []events.Event{connectedEvent}
	unconnected    = after(connectedRepo, events.RepoDisconnected{Name: "acme/web"})
)

type repoDecision = func(*Repo) ([]events.Event, error)

func TestConnectARepo(t *testing.T) {
	connect := func(change func(*events.RepoConnected), checks ...events.RepoCheck) repoDecision {
		e := events.RepoConnected{Name: "acme/web", Host: gitHub, Credential: id(70), Settings: events.RepoSettings{Branch: "main"}}
		change(&e)
		return func(r *Repo) ([]events.Event, error) { return r.Connect(e, checks...) }
	}
	same := func(*events.RepoConnected) {}
	refused := func(name, field, text string, change func(*events.RepoConnected)) spec[Repo] {
		return spec[Repo]{name: name, when: connect(change), err: fault.Fields(map[string][]string{field: {text}})}
	}
	const address = "must be the address of a repository, such as https://github.com/acme/web, without user, password and query"
	const name = "must be owner/name, of letters, digits, dots, underscores and hyphens"
	byGit := connectedEvent
	byGit.Host, byGit.Credential, byGit.Settings.Landing = gitOnly, events.ID{}, events.LandExactly
	ok := events.RepoCheck{Check: "push", Status: events.CheckOK, Text: "It may push."}
	lacking := events.RepoCheck{Check: "merge", Status: events.CheckLacking, Text: "tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUV2ArA0E\nmay not"}
	cleaned := lacking
	cleaned.Text = "tok_svc_[redacted] may not"
	check(t, []spec[Repo]{
		{name: "with defaults", when: connect(same), then: connectedRepo},
		{name: "with what a probe found", when: connect(same, ok, lacking),
			then: after(connectedRepo, events.RepoChecked{Checks: []events.RepoCheck{ok, cleaned}})},
		{name: "git alone needs no credential, and nothing else merges", when: connect(func(e *events.RepoConnected) {
			e.Host, e.Credential, e.Settings.Landing = gitOnly, events.ID{}, events.LandByHost
		}), then: []events.Event{byGit}},
		{name: "twice", given: connectedRepo, when: connect(same), err: ErrRepoConnected},
		{name: "under the id of one that was disconnected", given: unconnected, when: connect(same), err: ErrRepoConnected},
		refused("no credential", "credential", "is needed to push and to open pull requests",
			func(e *events.RepoConnected) { e.Credential = events.ID{} }),
		refused("no owner", "name", name, func(e *events.RepoConnected) { e.Name = "web" }),
		refused("a way up", "name", name, func(e *events.RepoConnected) { e.Name = "acme/.." }),
		refused("an unknown host", "kind", "must be one of github, gitea, git", func(e *events.RepoConnected) { e.Host.Kind = "svn" }),
		refused("a password", "url", address, func(e *events.RepoConnected) { e.Host.Clone = "https://a:b@github.com/acme/web.git" }),
		refused("another protocol", "url", address, func(e *events.RepoConnected) { e.Host.Clone = "file:///etc" }),
		refused("no interface", "apiUrl", address, func(e *events.RepoConnected) { e.Host.API = "" }),
		refused("no page", "webUrl", address, func(e *events.RepoConnected) { e.Host.Web = "https://github.com/acme/web?a" }),
		refused("no branch", "settings.branch", "must be the name of a branch, such as main",
			func(e *events.RepoConnected) { e.Settings.Branch = "" }),
	})
}

func TestDecisionsAboutARepo(t *testing.T) {
	settings := func(change func(*events.RepoSettings)) repoDecision {
		s := repoDefaults
		change(&s)
		return func(r *Repo) ([]events.Event, error) { return r.ChangeSettings(s) }
	}
	squash := repoDefaults
	squash.Method = events.MergeSquash
	found := []events.RepoCheck{{Check: "push", Status: events.CheckLacking, Text: "It may not push."}}
	checked := events.RepoChecked{Checks: found}
	record := func(r *Repo) ([]events.Event, error) { return r.RecordCheck(found) }
	fine := []events.RepoCheck{{Check: "push", Status: events.CheckOK, Text: "It may push."}}
	well := events.RepoChecked{OK: true, Checks: fine}
	recordWell := func(r *Repo) ([]events.Event, error) { return r.RecordCheck(fine) }
	replace := func(which events.CredentialKind, value events.ID) repoDecision {
		return func(r *Repo) ([]events.Event, error) { return r.ReplaceCredential(which, value) }
	}
	pause := func(reason string, code events.PauseCode) repoDecision {
		return func(r *Repo) ([]events.Event, error) { return r.Pause(reason, code) }
	}
	resume := func(r *Repo) ([]events.Event, error) { return r.Resume() }
	setHook := func(r *Repo) ([]events.Event, error) { return r.SetHook(id(73)) }
	rename := func(name string, host events.RepoHost) repoDecision {
		return func(r *Repo) ([]events.Event, error) { return r.Rename(name, host) }
	}
	disconnect := func(name string) repoDecision {
		return func(r *Repo) ([]events.Event, error) { return r.Disconnect(name) }
	}
	freeze := events.RepoPaused{Reason: "Release freeze."}
	refusedBy := events.RepoPaused{Reason: "The host answers 401.", Code: events.PauseCredential}
	failing := events.RepoPaused{Reason: "Jobs fail.", Code: events.PauseInfrastructure}
	moved := gitHub
	moved.Web, moved.Clone = "https://github.com/acme/site", "https://github.com/acme/site.git"
	reader := events.RepoCredentialReplaced{Which: events.ReadCredential, Value: id(71)}
	writer := events.RepoCredentialReplaced{Which: events.WriteCredential, Value: id(72)}
	check(t, []spec[Repo]{
		{name: "settings change", given: connectedRepo, when: settings(func(s *events.RepoSettings) { s.Method = events.MergeSquash }),
			then: []events.Event{events.RepoSettingsChanged{From: repoDefaults, To: squash}}},
		{name: "or do not", given: connectedRepo, when: settings(func(*events.RepoSettings) {})},
		{name: "nor those of none", when: settings(func(*events.RepoSettings) {}), err: ErrNoRepo},

		{name: "a check is recorded", given: connectedRepo, when: record, then: []events.Event{checked}},
		{name: "one that finds nothing ends a pause because of what it looks for", given: after(connectedRepo, refusedBy), when: recordWell,
			then: []events.Event{well, events.RepoResumed{}}},
		{name: "also if it found nothing before", given: after(connectedRepo, well, refusedBy), when: recordWell,
			then: []events.Event{events.RepoResumed{}}},
		{name: "but not that of a person", given: after(connectedRepo, freeze), when: recordWell, then: []events.Event{well}},
		{name: "nor one because of jobs", given: after(connectedRepo, failing), when: recordWell, then: []events.Event{well}},
		{name: "not if it finds the same", given: after(connectedRepo, checked), when: record},
		{name: "nor of one that is disconnected", given: unconnected, when: record, err: ErrNoRepo},

		{name: "a credential is added", given: connectedRepo, when: replace(events.ReadCredential, id(71)), then: []events.Event{reader}},
		{name: "taken away", given: after(connectedRepo, reader), when: replace(events.ReadCredential, events.ID{}),
			then: []events.Event{events.RepoCredentialReplaced{Which: events.ReadCredential}}},
		{name: "once", given: connectedRepo, when: replace(events.ReadCredential, events.ID{})},
		{name: "not the one that pushes", given: connectedRepo, when: replace(events.WriteCredential, events.ID{}),
			err: fault.Field("credential", "is needed to push and to open pull requests")},
		{name: "nor one of another kind", given: connectedRepo, when: replace("admin", id(71)), err: fault.Field("which",
			"must be write or read")},
		{name: "a new one ends a pause because of it", given: after(connectedRepo, refusedBy), when: replace(events.WriteCredential, id(72)),
			then: []events.Event{writer, events.RepoResumed{}}},
		{name: "but no other", given: after(connectedRepo, failing), when: replace(events.WriteCredential, id(72)), then: []events.Event{writer}},

		{name: "a hook is set up", given: connectedRepo, when: setHook, then: []events.Event{events.RepoHookSet{Hook: id(73)}}},
		{name: "not of one that is disconnected", given: unconnected, when: setHook, err: ErrNoRepo},

		{name: "a person pauses", given: connectedRepo, when: pause(" Release  freeze. ", ""), then: []events.Event{freeze}},
		{name: "once", given: after(connectedRepo, freeze), when: pause("Again.", "")},
		{name: "not without a word", given: connectedRepo, when: pause("\u200b ", ""), err: fault.Field("reason", "must say why")},
		{name: "nor with many", given: connectedRepo, when: pause(strings.Repeat("a", 1001), ""), err: fault.Field("reason",
			"must have 1000 bytes or less")},
		{name: "nor with a token", given: connectedRepo, when: pause("tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUV2ArA0E", ""),
			err: fault.Field("reason", "must not hold a service token")},
		{name: "the service pauses", given: connectedRepo, when: pause(refusedBy.Reason, refusedBy.Code), then: []events.Event{refusedBy}},
		{name: "once for a cause", given: after(connectedRepo, refusedBy), when: pause("Again.", refusedBy.Code)},
		{name: "for another", given: after(connectedRepo, refusedBy), when: pause(failing.Reason, failing.Code), then: []events.Event{failing}},
		{name: "not if a person has", given: after(connectedRepo, freeze), when: pause(failing.Reason, failing.Code)},
		{name: "who takes its place", given: after(connectedRepo, failing), when: pause("Release freeze.", ""), then: []events.Event{freeze}},
		{name: "a pause ends", given: after(connectedRepo, failing), when: resume, then: []events.Event{events.RepoResumed{}}},
		{name: "once", given: connectedRepo, when: resume},

		{name: "a new name", given: connectedRepo, when: rename("acme/site", moved),
			then: []events.Event{events.RepoRenamed{From: "acme/web", To: "acme/site", Host: moved}}},
		{name: "or the same", given: connectedRepo, when: rename("acme/web", gitHub)},
		{name: "or none", given: connectedRepo, when: rename("acme web", gitHub), err: repoName.Check("name", "acme web")},

		{name: "it is disconnected", given: connectedRepo, when: disconnect("acme/web"),
			then: []events.Event{events.RepoDisconnected{Name: "acme/web"}}},
		{name: "not by another name", given: connectedRepo, when: disconnect("acme/Web"), err: ErrRepoName},
		{name: "nor twice", given: unconnected, when: disconnect("acme/web"), err: ErrNoRepo},
		{name: "then it is not paused", given: unconnected, when: pause("Release freeze.", ""), err: ErrNoRepo},
		{name: "nor resumed", given: unconnected, when: resume, err: ErrNoRepo},
		{name: "nor renamed", given: unconnected, when: rename("acme/site", moved), err: ErrNoRepo},
		{name: "nor given credentials", given: unconnected, when: replace(events.ReadCredential, id(71)), err: ErrNoRepo},
	})
}

func TestRepoState(t *testing.T) {
	moved := gitHub
	moved.Clone = "https://github.com/acme/site.git"
	r := folded[Repo](after(connectedRepo,
		events.RepoCredentialReplaced{Which: events.ReadCredential, Value: id(71)},
		events.RepoRenamed{From: "acme/web", To: "acme/site", Host: moved},
		events.RepoPaused{Reason: "Freeze."}))
	require.True(t, r.Connected())
	require.Equal(t, "acme/site", r.Name())
	require.Equal(t, moved, r.Host())
	require.Equal(t, repoDefaults, r.Settings())
	require.Equal(t, []events.ID{id(70), id(71)}, []events.ID{r.Credential(events.WriteCredential), r.Credential(events.ReadCredential)})
	why, paused := r.Paused()
	require.True(t, paused)
	require.Equal(t, "Freeze.", why.Reason)
	r = folded[Repo](unconnected)
	require.Equal(t, []bool{false, true}, []bool{r.Connected(), r.Known()})
	_, paused = r.Paused()
	require.False(t, paused)
}

// The third time in a row that the implementer is not available pauses the repository.
func TestR6AnImplementerThatIsNotAvailable(t *testing.T) {
	run := id(80)
	note := func(job byte, why string) repoDecision {
		return func(r *Repo) ([]events.Event, error) { return r.NoteImplementer(run, id(job), why, noon) }
	}
	missed := func(job byte, minutes time.Duration) events.Event {
		return events.RepoImplementerTried{Run: run, Job: id(job), Unavailable: "It answers 429.", RetryAt: noon.Add(minutes * time.Minute)}
	}
	back := events.RepoImplementerTried{Run: run, Job: id(83)}
	pause := events.RepoPaused{Reason: "The implementer was not available 3 times in a row. It answers 429.", Code: events.PauseInfrastructure}
	once, twice := after(connectedRepo, missed(81, 1)), after(connectedRepo, missed(81, 1), missed(82, 4))
	thrice := after(twice, missed(83, 16))
	const why = "It answers\n429."
	check(t, []spec[Repo]{
		{name: "once", given: connectedRepo, when: note(81, why), then: []events.Event{missed(81, 1)}},
		{name: "to the same job", given: once, when: note(81, why)},
		{name: "to another", given: once, when: note(82, why), then: []events.Event{missed(82, 4)}},
		{name: "to the third", given: twice, when: note(83, why), then: []events.Event{missed(83, 16), pause}},
		{name: "again while it is paused", given: after(thrice, pause), when: note(84, why), then: []events.Event{missed(84, 60)}},
		{name: "after it was resumed", given: after(thrice, pause, events.RepoResumed{}), when: note(84, why),
			then: []events.Event{missed(84, 1)}},
		{name: "with other settings", given: after(thrice, events.RepoSettingsChanged{}), when: note(84, why),
			then: []events.Event{missed(84, 1)}},
		{name: "it is available again", given: twice, when: note(83, ""), then: []events.Event{back}},
		{name: "which is news once", given: after(twice, back), when: note(84, "")},
		{name: "and begins a new count", given: after(twice, back), when: note(84, why), then: []events.Event{missed(84, 1)}},
		{name: "of no repository", when: note(81, why), err: ErrNoRepo},
	})
	text, until := folded[Repo](twice).Missed()
	require.Equal(t, []any{"It answers 429.", noon.Add(4 * time.Minute)}, []any{text, until})
	text, until = folded[Repo](after(twice, back)).Missed()
	require.Equal(t, []any{"", time.Time{}}, []any{text, until})
}
