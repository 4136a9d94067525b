package plans_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/events/bus"
	"svc/events/feed"
	"svc/events/store"
	"svc/farm/ingest"
	"svc/farm/joblog"
	"svc/fault"
	"svc/http/hooks"
	"svc/loop"
	"svc/projections"
	"svc/projections/auditlog"
	"svc/projections/fold"
	"svc/projections/query"
	"svc/projections/runviews"
	"svc/proof"
	"svc/sessions"
	"svc/test/world"
)

// rounds is how often everything is asked, once more than makes a plan settle.
const rounds = settled + 1

// A process is what one of the service has, with each part on a pool of its own.
type process struct {
	*site
	log      *store.Store
	commands *commands.Handler
	follower *fold.Follower
	prover   *proof.Prover
	relay    *bus.Relay
	live     *feed.Feed
	seen     *sessions.LastSeen
	marker   atomic.Pointer[loop.Marker] // once startLoop has begun
	logs     *joblog.Logs
	asks     *pgxpool.Pool // questions
	keeps    *pgxpool.Pool // the log
	gives    *pgxpool.Pool // jobs to runners
}

var quiet = slog.New(slog.DiscardHandler)

func (s *site) start(t *testing.T, w *watcher) *process {
	t.Helper()
	ring, p := newRing(t), &process{site: s, asks: w.pool(t, s.url), keeps: w.pool(t, s.url), gives: w.pool(t, s.url)}
	p.follower = fold.NewFollower(w.pool(t, s.url), projections.Followed(), always, quiet)
	p.prover = proof.New(w.pool(t, s.url), ring, "acme.example", always, quiet)
	onBus := w.pool(t, s.url)
	p.relay = bus.NewRelay(onBus, always, quiet)
	p.live = feed.New(w.pool(t, s.url), quiet)
	p.seen = sessions.NewLastSeen(w.pool(t, s.url), quiet)
	p.logs = joblog.New(w.pool(t, s.url), quiet)
	p.log = store.New(p.keeps, append(projections.Inline(), sessions.Endings{}, ingest.Leases{}), func(workspace events.ID, head int64) {
		p.follower.Moved(workspace, head)
		p.prover.Moved(workspace, head)
		p.relay.Moved(workspace, head)
		p.live.Moved(workspace, head)
		if m := p.marker.Load(); m != nil {
			m.Moved(workspace, head)
		}
	})
	t.Cleanup(p.log.Close)
	p.log.EnableSnapshots(ring, quiet)
	p.log.Authenticate(ring)
	p.log.CheckLoads(ring, p.prover.CheckSigned, quiet)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	relays := func(ctx context.Context) { bus.Run(ctx, bus.Config{DB: onBus, Log: quiet}, p.relay) }
	for _, run := range []func(context.Context){p.follower.Run, p.prover.Run, relays, p.live.Run, p.seen.Run, p.logs.Run} {
		running.Go(func() { run(ctx) })
	}
	t.Cleanup(func() { stop(); running.Wait() })
	return p
}

// exercise asks for everything, round after round.
func (s *site) exercise(t *testing.T, w *watcher) {
	t.Helper()
	p := s.start(t, w)
	g := p.openGate(t, p.gives)
	m := p.startLoop(t, w)
	for round := range rounds {
		// One that begins remembers nothing, and so has to look everything up.
		p.commands = commands.New(p.log, func() time.Time { return epoch.Add(time.Duration(round) * time.Minute) })
		p.commands.Views = world.Views(p.asks, nil)
		p.command(t, round)
		p.ask(t)
		m.moveRun(t, round)
		g.dispatch(t)
	}
	g.leaveIdle(t, w)
}

// command carries out commands, and waits for what follows them.
func (p *process) command(t *testing.T, round int) {
	t.Helper()
	ctx, h, ok := t.Context(), p.commands, done[commands.Result](t)
	name := func(s string) string { return fmt.Sprintf("%s-%d", s, round) }
	owner := p.owner.in(p.acme)
	keyed := owner
	keyed.Key = name("key")

	guest := newPerson(name("guest"))
	ok(h.RegisterUser(ctx, guest.register()))
	ok(h.RefreshUser(ctx, commands.RefreshUser{
		Meta: guest.in(guest.home), Emails: []string{guest.email, "also." + guest.email},
		Account: events.UserAccountLinked{User: guest.user, Provider: "gitea", Account: guest.user.String(), Login: "p"},
	}))
	ok(h.RecordSignIn(ctx, commands.RecordSignIn{Meta: guest.in(guest.home), Email: guest.email, Session: newID(), Method: "github"}))
	ok(h.EndSessions(ctx, commands.EndSessions{Meta: guest.in(guest.home), Sessions: []events.ID{newID()}}))
	ok(h.RenameWorkspace(ctx, commands.RenameWorkspace{Meta: guest.in(guest.home), Slug: ptr(name("renamed"))}))

	sent := commands.SendInvitation{Meta: keyed, Invitation: newID(), Email: guest.email, Role: events.Viewer}
	ok(h.SendInvitation(ctx, sent))
	ok(h.SendInvitation(ctx, sent))
	ok(h.ResendInvitation(ctx, commands.ResendInvitation{Meta: owner, Invitation: sent.Invitation}))
	ok(h.AcceptInvitation(ctx, commands.AcceptInvitation{Meta: guest.in(p.acme), Invitation: sent.Invitation, Member: guest.member,
		Emails: []string{guest.email}}))
	ok(h.RefreshMember(ctx, commands.RefreshMember{Meta: guest.in(p.acme), Name: "A guest", Email: guest.email}))
	ok(h.UpdateMember(ctx, commands.UpdateMember{Meta: owner, Member: guest.member, Role: ptr(events.Maintainer), ApproveLoops: ptr(true)}))
	_, err := h.UpdateMember(ctx, commands.UpdateMember{Meta: guest.in(p.acme), Member: p.owner.member, Role: ptr(events.Viewer)})
	require.ErrorIs(t, err, aggregates.ErrMemberForbidden)

	account := commands.CreateServiceAccount{Meta: owner, Account: newID(), Token: bearer.NewServiceToken(), Name: name("robot"),
		Scopes: []events.Scope{events.ReadAPI}}
	ok(h.CreateServiceAccount(ctx, account))
	ok(h.RotateServiceAccount(ctx, commands.RotateServiceAccount{Meta: owner, Account: account.Account, Token: bearer.NewServiceToken()}))
	ok(h.NoteStaleToken(ctx, commands.NoteStaleToken{Meta: owner, Account: account.Account, Tail: account.Token.Tail()}))
	ok(h.RevokeServiceAccount(ctx, commands.RevokeServiceAccount{Meta: owner, Account: account.Account}))

	p.commandRuns(t, round, owner)
	p.commandRunners(t, owner)
	p.commandJobs(t, owner)
	result := ok(h.RemoveMember(ctx, commands.RemoveMember{Meta: owner, Member: guest.member}))
	require.NoError(t, p.log.SaveSnapshot(ctx, p.acme, newID(), events.Snapshot{Form: 1, Version: 500, Seq: 500, State: []byte("{}")}))

	for _, name := range checkpointed() {
		require.NoError(t, p.follower.Await(ctx, name, p.acme, result.Position), name)
	}
}

func (p *process) commandRuns(t *testing.T, round int, owner commands.Meta) {
	t.Helper()
	ctx, h, ok := t.Context(), p.commands, done[commands.Result](t)
	run, decision := newID(), newID()
	ok(h.QueueRun(ctx, commands.QueueRun{Meta: owner, Run: run, Repo: p.repo, IssueNumber: 900_000 + 10*round, IssueTitle: "Dark mode"}))
	ok(h.RecordRun(ctx, commands.RecordRun{Meta: owner, Run: run, Facts: []events.Event{
		events.RunStarted{Slot: 1 + round, RepoSlot: 1 + round},
		events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1},
		events.RunCostRecorded{Cents: 7, Source: "compute", Quantity: 1, Key: "farm/1"},
		events.DecisionRaised{Decision: decision, About: events.FactReview, Question: "Is that so?"},
	}}))
	ok(h.AnswerDecision(ctx, commands.AnswerDecision{Meta: owner, Run: run,
		Answer: aggregates.Answer{Decision: decision, Action: aggregates.ActionConfirm}}))
	ok(h.CancelRun(ctx, commands.CancelRun{Meta: owner, Run: run}))
	ok(h.QueueIssue(ctx, commands.QueueIssue{Meta: owner, Run: newID(), Repo: p.repo.ID, RepoName: p.repo.Name, Title: "Light mode"}))
	ok(h.ExportAudit(ctx, commands.ExportAudit{Meta: owner, Format: "csv"}))

	// As many events as fill a block of the audit log and a tile of the proof.
	many := []events.Event{events.RunQueued{Repo: p.repo, IssueNumber: 990_000 + round, IssueTitle: "Long"}}
	for range 300 {
		many = append(many, events.RunCostRecorded{Repo: p.repo.ID, Cents: 1, Source: "compute", Quantity: 1})
	}
	done[events.Committed](t)(p.log.Append(ctx, &events.Commit{
		Workspace: p.acme, Envelope: owner.Envelope, At: epoch, Writes: []events.Write{{Stream: newID(), Events: many}},
	}))
}

func ptr[T any](v T) *T { return &v }

// ask puts every question, in each of its forms.
func (p *process) ask(t *testing.T) {
	t.Helper()
	p.askMembers(t)
	p.askRuns(t)
	p.askRunners(t)
	p.askJobs(t)
	p.askJobLogs(t)
	p.askJobInputs(t)
	p.askAudit(t)
	p.askLogs(t)
	p.askSessions(t)
}

func (p *process) askMembers(t *testing.T) {
	t.Helper()
	ctx, v := t.Context(), projections.Members{DB: p.asks}
	_, _, middle, err := v.Page(ctx, projections.MemberQuery{Workspace: p.acme, Offset: 5000, Limit: 25})
	require.NoError(t, err)
	for _, q := range []projections.MemberQuery{
		{}, {Descending: true}, {Offset: projections.MaxMembersOffset - 100}, {After: middle}, {Q: "person 777"}, {Q: "p77"},
		{Q: "person", After: middle}, {Q: "nobody"}, {Role: events.Maintainer}, {Role: events.Maintainer, After: middle},
		{Role: events.Maintainer, Q: "person"}, {Role: events.Viewer, Q: "person"}, {Role: events.Viewer, Offset: 1000},
		{Role: events.Maintainer, ByJoined: true}, {Role: events.Viewer, ByJoined: true}, {ByJoined: true, Descending: true},
	} {
		q.Workspace, q.Limit = p.acme, 25
		_, _, _, err := v.Page(ctx, q)
		require.NoError(t, err)
	}
	_, ok, err := v.Get(ctx, p.acme, p.member)
	require.True(t, ok, err)
	_, ok, err = v.Membership(ctx, p.acme, p.fellow)
	require.True(t, ok, err)
	done[[]events.ID](t)(v.WorkspacesWithOtherProfile(ctx, p.fellow, "Person 500", "p500@elsewhere.example"))
	people := projections.Users{DB: p.asks}
	done[events.ID](t)(people.Home(ctx, p.fellow))
	done[map[events.ID]projections.Profile](t)(people.Profiles(ctx, []events.ID{p.fellow}))
	done[map[string]string](t)(people.Names(ctx, []string{"fellow@acme.example"}))
	done[[]projections.Account](t)(projections.Accounts{DB: p.asks}.ForUser(ctx, p.fellow))
	workspaces := projections.Workspaces{DB: p.asks}
	_, ok, err = workspaces.Get(ctx, p.acme)
	require.True(t, ok, err)
	_, ok, err = workspaces.Visit(ctx, p.acme, p.fellow)
	require.True(t, ok, err)
	done[int64](t)(workspaces.Position(ctx, p.acme))
	done[[]projections.OwnWorkspace](t)(workspaces.ForMember(ctx, p.fellow, 100))
	done[[]projections.DeletedWorkspace](t)(workspaces.Restorable(ctx, p.fellow, 100))
	_, ok, err = workspaces.GetDeleted(ctx, p.acme)
	require.False(t, ok, err)
	_, ok, err = workspaces.DeletedMembership(ctx, p.acme, p.fellow)
	require.False(t, ok, err)
	done[bool](t)(p.prover.Purged(ctx, p.acme))

	accounts := projections.ServiceAccounts{DB: p.asks}
	found := done[map[events.Fingerprint]projections.ServiceToken](t)(accounts.Tokens(ctx, []events.Fingerprint{p.token.Fingerprint()}))
	require.Len(t, found, 1)
	_, _, err = accounts.Page(ctx, p.acme, 25, 0)
	require.NoError(t, err)
	done[[]query.Named](t)(accounts.SearchByName(ctx, p.acme, "robot", 5))
	done[events.ID](t)(accounts.Issuer(ctx, p.acme, p.account))
	_, ok, err = accounts.Get(ctx, p.acme, p.account)
	require.True(t, ok, err)

	invitations := projections.Invitations{DB: p.asks}
	_, _, err = invitations.Page(ctx, p.acme, 25, 0)
	require.NoError(t, err)
	done[[]projections.Invitation](t)(invitations.Pending(ctx, p.acme, 100, 0))
	done[[]projections.Invitation](t)(invitations.ForAddresses(ctx, []string{"i7@acme.example"}, epoch, 100))
	_, ok, err = invitations.ForAddress(ctx, p.acme, "i7@acme.example")
	require.True(t, ok, err)
	_, _, err = invitations.Get(ctx, p.acme, newID())
	require.NoError(t, err)
}

func (p *process) askRuns(t *testing.T) {
	t.Helper()
	ctx, v := t.Context(), runviews.Runs{DB: p.asks}
	for _, q := range []runviews.RunQuery{
		{Active: true}, {}, {Offset: 99_000}, {Repo: &p.repo.ID}, {Active: true, Repo: &p.repo.ID}, {Q: "date parsing 777"},
		{Active: true, Q: "7"}, {Q: "nothing of the kind"}, {Q: "7", Offset: 99_000}, {Q: "7", Repo: &p.rare},
	} {
		q.Workspace, q.Limit = p.acme, 25
		_, _, err := v.Page(ctx, q)
		require.NoError(t, err)
	}
	for _, text := range []string{"date parsing 777", "7", "nothing of the kind"} {
		done[[]runviews.Run](t)(v.Search(ctx, p.acme, text, 5))
	}
	_, ok, err := v.Get(ctx, p.acme, p.run)
	require.True(t, ok, err)
	for _, repo := range []*events.ID{nil, &p.repo.ID} {
		done[runviews.RunCounts](t)(v.Counts(ctx, p.acme, repo, epoch))
	}
	repos := projections.Repos{DB: p.asks}
	done[[]projections.ListedRepo](t)(repos.List(ctx, p.acme))
	done[[]runviews.Run](t)(v.ActiveOf(ctx, p.acme, p.repo.ID, []int{1, 7, 777}))
	done[int](t)(repos.Count(ctx, p.acme))
	done[map[events.ID]projections.RepoSite](t)(repos.Sites(ctx, p.acme, []events.ID{p.repo.ID}))
	_, _, err = repos.Get(ctx, p.acme, p.repo.ID)
	require.NoError(t, err)
	done[[]hooks.Delivery](t)(hooks.Deliveries{DB: p.asks}.List(ctx, p.acme, p.repo.ID))
	told := idOf(t, 'r', 500)
	require.Len(t, done[[]events.Record](t)(v.Events(ctx, p.long, told, 5, 25)), 5)
	require.Len(t, done[[]events.Record](t)(v.EventsBefore(ctx, p.long, told, 9, 5)), 5)
	_, ok, err = v.Repo(ctx, p.acme, p.repo.ID, p.commands.IssueOf)
	require.True(t, ok, err)

	decisions := runviews.Decisions{DB: p.asks}
	_, _, err = decisions.Get(ctx, p.acme, newID())
	require.NoError(t, err)
	_, _, err = decisions.Inbox(ctx, p.acme, 25, 0)
	require.NoError(t, err)
	dashboard := projections.Dashboard{DB: p.asks}
	done[map[events.ID]string](t)(dashboard.Positions(fold.Require(ctx, []string{"runs", "decisions"}, p.acme, 1), []events.ID{p.acme}))
	done[projections.Overview](t)(dashboard.Get(ctx, p.acme, 10, epoch))
	insights := runviews.Insights{DB: p.asks}
	for _, repo := range []*events.ID{nil, &p.repo.ID} {
		done[runviews.Report](t)(insights.Get(ctx, p.acme, repo, epoch.Add(-7*24*time.Hour), 7))
	}
	last := time.Date(2026, 3, 11, 0, 0, 0, 0, time.UTC) // the day after the last run
	for _, days := range []int{7, 90} {
		report := done[runviews.Report](t)(insights.Get(ctx, p.acme, &p.rare, last.AddDate(0, 0, -days), days))
		require.Positive(t, report.Window.Runs)
		require.Positive(t, report.Window.Interventions)
	}
}

func (p *process) askAudit(t *testing.T) {
	t.Helper()
	ctx, v := t.Context(), auditlog.Audit{DB: p.asks}
	from := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	for _, f := range []auditlog.AuditFilter{
		{}, {From: from, To: from.Add(time.Hour)}, {Actor: "service:ci"}, {Actor: p.owner.user.String()}, {ActorType: events.ByRunner},
		{Action: "run.cost_recorded"}, {Action: "member.*"}, {Action: "mem*"}, {Category: events.People}, {Category: events.Work},
		{Actor: "service:ci," + p.owner.user.String(), Action: "member.*,run.cost_recorded"}, {Target: "acme/web#777"}, {Target: p.run.String()},
		{Q: "not there"}, {Actor: "nobody", Target: "nothing"},
	} {
		done[auditlog.AuditPage](t)(v.Page(ctx, auditlog.AuditQuery{Workspace: p.told, Limit: 25, AuditFilter: f}))
		done[auditlog.AuditPage](t)(v.PageAfter(ctx, p.told, f, 500, 25))
		_, _, err := v.Count(ctx, p.told, f, 1000)
		require.NoError(t, err)
		done[[]auditlog.AuditRow](t)(v.RowsAfter(ctx, p.told, f, 500, records, 100))
	}
	_, ok, err := v.Get(ctx, p.told, idOf(t, 'e', 77)) // the times in these ids are before the log, so Get begins at its first record
	require.NoError(t, err)
	require.True(t, ok)
}

func (p *process) askLogs(t *testing.T) {
	t.Helper()
	ctx, list := t.Context(), done[[]events.Record](t)
	_, err := p.log.Load(ctx, p.long, idOf(t, 'r', 777), 3)
	require.ErrorIs(t, err, fault.ErrUnavailable, "its events have no MACs, nor signatures")
	list(store.Page{Logs: store.After(p.long, 500), Limit: 100}.Read(ctx, p.asks))
	list(store.Page{Logs: append(store.After(p.long, 500), store.After(p.acme, 0)...), Limit: 9, Kinds: []string{"member"}}.Read(ctx, p.asks))
	require.NoError(t, p.prover.CheckSigned(ctx, list(store.Page{Logs: store.After(p.acme, 0), Limit: 9}.Read(ctx, p.asks))))
	_, _, err = p.log.Holder(ctx, "email/p777@acme.example")
	require.NoError(t, err)
	history := projections.History{DB: p.asks}
	head, at, err := history.Head(ctx, p.long)
	require.NoError(t, err)
	done[projections.Activity](t)(history.Activity(ctx, p.long, at.Add(-30*24*time.Hour), 30))
	done[int64](t)(history.SeqAt(ctx, p.long, at.Add(-time.Hour), head))
	done[*projections.State](t)(history.At(ctx, p.long, 20_000))
	done[[]auditlog.AuditRecord](t)(history.Steps(ctx, p.long, 100, 200))
	watch := p.live.Watch(p.acme, []string{"member"})
	defer watch.Close()
	done[int64](t)(watch.Head(ctx))
	done[[]feed.News](t)(watch.After(ctx, 1))
	done[[]fold.ParkedEvent](t)(fold.ListParked(ctx, p.asks))
	done[bool](t)(fold.SkipParked(ctx, p.asks, "runs", p.acme, 1))
	done[[]fold.Status](t)(fold.Survey(ctx, p.asks, projections.All()))
	require.NoError(t, p.follower.Await(ctx, "", p.acme, 1))
	require.NoError(t, fold.AwaitFollowed(ctx, p.asks, projections.All(), p.acme, 1, time.Now()))
	done[map[events.ID]int64](t)(fold.Heads(ctx, p.asks))

	report := done[proof.Report](t)(p.prover.Verify(ctx, p.acme, "", nil))
	require.Nil(t, report.Bad)
	_, ok, err := p.prover.Last(ctx, p.acme)
	require.True(t, ok, err)
	public := done[string](t)(proof.PublicKey(ctx, p.asks))
	done[proof.Report](t)(proof.Verify(ctx, p.asks, p.acme, proof.Check{VerifierKey: public, Progress: func(int64, int64) {}}))
	done[[]events.ID](t)(proof.Workspaces(ctx, p.asks))
}

func (p *process) askSessions(t *testing.T) {
	t.Helper()
	ctx, now := t.Context(), epoch
	s := &sessions.Store{DB: p.asks, Secret: []byte("a secret of thirty-two characters"), Now: func() time.Time { return now },
		Log: slog.Default()}
	session := done[sessions.Session](t)(s.Start(ctx, p.fellow, p.acme, "", ""))
	cookie := value(s.Cookie(session))
	now = now.Add(25 * time.Hour)
	_, renewed, ok, err := s.Find(ctx, cookie)
	require.True(t, ok && renewed, err)
	_, ok, err = s.FindAgain(ctx, session)
	require.True(t, ok, err)
	done[[]sessions.Session](t)(s.ForUser(ctx, p.fellow, 100))
	_, err = s.SetActive(ctx, session, p.acme)
	require.NoError(t, err)
	require.NoError(t, s.UnsetActive(ctx, session))
	require.NoError(t, s.Discard(ctx, session))

	p.seen.Member(p.acme, newID(), now)
	p.seen.ServiceAccount(p.acme, newID(), now)
	passwords := sessions.Passwords{DB: p.asks}
	require.NoError(t, passwords.Set(ctx, p.fellow, "a password"))
	_, _, ok, err = passwords.Check(ctx, "p500@acme.example", "a password")
	require.True(t, ok, err)
	states := sessions.States{DB: p.asks, Now: func() time.Time { return now }}
	random := newID().String()
	require.NoError(t, states.Begin(ctx, random, sessions.State{Provider: "github"}))
	_, ok, err = states.ErrorURL(ctx, random)
	require.True(t, ok, err)
	_, ok, err = states.Take(ctx, random)
	require.True(t, ok, err)
	daily := sessions.Daily{DB: p.asks}
	_, err = daily.Take(ctx, p.fellow, "invitations", now, 100)
	require.NoError(t, err)
	require.NoError(t, daily.GiveBack(ctx, p.fellow, "invitations", now))
}

// value is what a browser sends back of a cookie.
func value(c *http.Cookie) string {
	_, text, _ := strings.Cut(c.String(), "=")
	text, _, _ = strings.Cut(text, ";")
	return text
}
