package auditlog_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/projections/auditlog"
	"svc/test/pgtest"
	"svc/test/world"
)

// seqs returns the sequence numbers of records.
func seqs(list []auditlog.AuditRecord) []int64 {
	n := []int64{}
	for _, r := range list {
		n = append(n, r.Seq)
	}
	return n
}

// The name of a job may look like an address or an id.
func TestAuditOfTargetByAnyName(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, job := world.NewID(), world.NewID()
	likeID := strings.ToUpper(job.String())
	for _, name := range []string{"Deploy@Acme.example", "deploy@acme.example", likeID} {
		w.Record(t, world.System, workspace, world.NewID(), events.JobSubmitted{Spec: events.JobSpec{Name: name}})
	}
	w.Record(t, world.System, workspace, job, events.JobSubmitted{Spec: events.JobSpec{Name: "Deploy"}})
	for target, want := range map[string][]int64{
		"Deploy@Acme.example": {2, 1}, "deploy@acme.example": {2}, likeID: {4, 3}, job.String(): {4}, "Deploy": {4}, "deploy": {},
	} {
		page, err := auditlog.Audit{DB: w.DB}.Page(t.Context(), auditlog.AuditQuery{Workspace: workspace, Limit: 5,
			AuditFilter: auditlog.AuditFilter{Target: target}})
		require.NoError(t, err)
		require.Equal(t, want, seqs(page.Records), target)
	}
}

func TestAuditPage(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, member, account, run := world.NewID(), world.NewID(), world.NewID(), world.NewID()
	ann := events.Actor{Type: events.ByUser, ID: world.NewID(), Name: "ann@acme.example"}
	bot := events.Actor{Type: events.ByService, ID: world.NewID(), Name: "service:ci-bot"}
	bob := events.MemberJoined{Member: member, User: world.NewID(), Email: "bob@acme.example", Role: events.Viewer}
	// 1
	w.Record(t, ann, workspace, workspace, events.WorkspaceCreated{Name: "Acme", Slug: "acme"})
	// 2
	w.Record(t, ann, workspace, workspace, bob)
	// 3
	w.Record(t, ann, workspace, workspace,
		events.MemberRoleChanged{Member: member, User: bob.User, Email: bob.Email, From: bob.Role, To: "Owner"})
	// 4
	w.Record(t, ann, workspace, account,
		events.ServiceAccountCreated{Account: account, Name: "ci-bot", Scopes: []events.Scope{events.ReadAPI}})
	// 5
	w.Record(t, bot, workspace, run, events.RunQueued{Repo: web, IssueNumber: 7, IssueTitle: "Fix"})
	// 6
	w.Record(t, world.System, workspace, run, events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1})
	// 7
	last := w.Record(t, ann, workspace, workspace,
		events.MemberRemoved{Member: member, User: bob.User, Email: bob.Email, Role: events.Owner})[0]
	zoe := events.Actor{Type: events.ByUser, ID: world.NewID(), Name: "Zoë@Straße.example"}
	w.Record(t, zoe, workspace, workspace, events.WorkspaceRenamed{Name: "Acme", Slug: "acme", FromName: "Acme Ltd", FromSlug: "acme"}) // 8
	w.Record(t, ann, world.NewID(), world.NewID(), events.WorkspaceCreated{Name: "Elsewhere", Slug: "elsewhere"})
	w.CaughtUp(t)
	third := timeOf(t, w, workspace, 3)

	type f = auditlog.AuditFilter
	for name, test := range map[string]struct {
		query auditlog.AuditQuery
		want  []int64
	}{
		"everything, the newest first":      {auditlog.AuditQuery{}, []int64{8, 7, 6, 5, 4, 3, 2, 1}},
		"a page":                            {auditlog.AuditQuery{Limit: 3}, []int64{8, 7, 6}},
		"the next page":                     {auditlog.AuditQuery{Limit: 3, Before: 5}, []int64{4, 3, 2}},
		"the last page":                     {auditlog.AuditQuery{Limit: 3, Before: 2}, []int64{1}},
		"behind the end":                    {auditlog.AuditQuery{Before: 1}, []int64{}},
		"from a time on":                    {auditlog.AuditQuery{AuditFilter: f{From: third}}, []int64{8, 7, 6, 5, 4, 3}},
		"up to a time, without it":          {auditlog.AuditQuery{AuditFilter: f{To: third}}, []int64{2, 1}},
		"between two times":                 {auditlog.AuditQuery{AuditFilter: f{From: third, To: last.At}}, []int64{6, 5, 4, 3}},
		"an actor by name":                  {auditlog.AuditQuery{AuditFilter: f{Actor: "service:ci-bot"}}, []int64{5}},
		"an actor by id":                    {auditlog.AuditQuery{AuditFilter: f{Actor: ann.ID.String()}}, []int64{7, 4, 3, 2, 1}},
		"an actor's name is no part of one": {auditlog.AuditQuery{AuditFilter: f{Actor: "ann"}}, []int64{}},
		"a type of actor":                   {auditlog.AuditQuery{AuditFilter: f{ActorType: events.BySystem}}, []int64{6}},
		"an action":                         {auditlog.AuditQuery{AuditFilter: f{Action: "member.joined"}}, []int64{2}},
		"an action is no prefix":            {auditlog.AuditQuery{AuditFilter: f{Action: "member"}}, []int64{}},
		"a prefix of actions":               {auditlog.AuditQuery{AuditFilter: f{Action: "member.*"}}, []int64{7, 3, 2}},
		"any action":                        {auditlog.AuditQuery{Limit: 2, AuditFilter: f{Action: "*"}}, []int64{8, 7}},
		"a percent sign is no wildcard":     {auditlog.AuditQuery{AuditFilter: f{Action: "member.%*"}}, []int64{}},
		"a target by name":                  {auditlog.AuditQuery{AuditFilter: f{Target: "bob@acme.example"}}, []int64{7, 3, 2}},
		"a run's later events by its name":  {auditlog.AuditQuery{AuditFilter: f{Target: "acme/web#7"}}, []int64{6, 5}},
		"a part of a run's name":            {auditlog.AuditQuery{AuditFilter: f{Q: "WEB#7"}}, []int64{6, 5}},
		"ids in any case":                   {auditlog.AuditQuery{AuditFilter: f{Target: strings.ToUpper(run.String())}}, []int64{6, 5}},
		"an actor's address in any case":    {auditlog.AuditQuery{AuditFilter: f{Actor: "Ann@ACME.example"}}, []int64{7, 4, 3, 2, 1}},
		"an actor's id in any case":         {auditlog.AuditQuery{AuditFilter: f{Actor: strings.ToUpper(bot.ID.String())}}, []int64{5}},
		"a letter beyond ASCII in any case": {auditlog.AuditQuery{AuditFilter: f{Q: "ZOË"}}, []int64{8}},
		"a letter as people type it":        {auditlog.AuditQuery{AuditFilter: f{Q: "zoe@strasse"}}, []int64{8}},
		"either of two actors": {auditlog.AuditQuery{AuditFilter: f{Actor: "service:ci-bot," +
			strings.ToUpper(ann.ID.String())}}, []int64{7, 5, 4, 3, 2, 1}},
		"either of two actions": {auditlog.AuditQuery{AuditFilter: f{Action: "member.joined,member.role_changed"}},
			[]int64{3, 2}},
		"either of an action and a noun":      {auditlog.AuditQuery{AuditFilter: f{Action: "member.*,run.queued"}}, []int64{7, 5, 3, 2}},
		"either of an action and a beginning": {auditlog.AuditQuery{AuditFilter: f{Action: "member.r*,run.queued"}}, []int64{7, 5, 3}},
		"either of a noun and a beginning":    {auditlog.AuditQuery{AuditFilter: f{Action: "mem*,run.*"}}, []int64{7, 6, 5, 3, 2}},
		"either and both": {auditlog.AuditQuery{AuditFilter: f{Actor: "service:ci-bot," + ann.Name,
			Action: "run.*,member.joined"}}, []int64{5, 2}},
		"a prefix within a noun":    {auditlog.AuditQuery{AuditFilter: f{Action: "member.r*"}}, []int64{7, 3}},
		"a target by id":            {auditlog.AuditQuery{AuditFilter: f{Target: run.String()}}, []int64{6, 5}},
		"a part of an action":       {auditlog.AuditQuery{AuditFilter: f{Q: "ROLE_"}}, []int64{3}},
		"a part of an actor's name": {auditlog.AuditQuery{AuditFilter: f{Q: "ann@"}}, []int64{7, 4, 3, 2, 1}},
		"a part of a target's name": {auditlog.AuditQuery{AuditFilter: f{Q: "Bob@"}}, []int64{7, 3, 2}},
		"a part of either":          {auditlog.AuditQuery{AuditFilter: f{Q: "ci-bot"}}, []int64{5, 4}},
		"all at once": {auditlog.AuditQuery{Before: 7,
			AuditFilter: f{Actor: ann.Name, ActorType: events.ByUser, Action: "member.*", Target: member.String(), From: third, Q: "b"}},
			[]int64{3}},
		"of a workspace that is not there":     {auditlog.AuditQuery{Workspace: world.NewID()}, []int64{}},
		"a quote is a quote, not the query's":  {auditlog.AuditQuery{AuditFilter: f{Q: "' or true --"}}, []int64{}},
		"a dollar is a dollar":                 {auditlog.AuditQuery{AuditFilter: f{Actor: "$1"}}, []int64{}},
		"a question mark is no place for more": {auditlog.AuditQuery{AuditFilter: f{Actor: "?", Q: "?"}}, []int64{}},
		"what happened elsewhere is not here":  {auditlog.AuditQuery{AuditFilter: f{Q: "elsewhere"}}, []int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			q := test.query
			if q.Workspace.IsZero() {
				q.Workspace = workspace
			}
			if q.Limit == 0 {
				q.Limit = 50
			}
			page, err := auditlog.Audit{DB: w.DB}.Page(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, test.want, seqs(page.Records))
			if q.Before == 0 && q.Limit == 50 {
				n, exact, err := auditlog.Audit{DB: w.DB}.Count(t.Context(), q.Workspace, q.AuditFilter, 50)
				require.NoError(t, err)
				require.Equal(t, []any{len(test.want), true}, []any{n, exact})
			}
		})
	}

	page, err := auditlog.Audit{DB: w.DB}.Page(t.Context(), auditlog.AuditQuery{Workspace: workspace, Limit: 50})
	require.NoError(t, err)
	records, err := store.Page{Logs: store.After(workspace, 0), Limit: 50}.Read(t.Context(), w.DB)
	require.NoError(t, err)
	slices.Reverse(records)
	for i, r := range page.Records { // each is the stored event, as far as it is shown
		require.Equal(t, records[i].Summary(), r.Record)
	}
}

// timeOf returns the time of an event.
func timeOf(t *testing.T, w *world.World, workspace events.ID, seq int64) time.Time {
	t.Helper()
	list, err := store.Page{Logs: store.After(workspace, seq-1), Limit: 1}.Read(t.Context(), w.DB)
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0].At
}

// Clients page backwards while the log grows: each sees every record below its first one exactly
// once.
func TestAuditCursorSeesEachRecordOnce(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 60))
	w.CaughtUp(t)
	var all sync.WaitGroup
	all.Go(func() { assert.NoError(t, p.Play(t.Context(), 150)) })
	for reader := range 4 {
		all.Go(func() {
			for range 10 {
				var want, before int64
				for first := true; ; first = false {
					page, err := auditlog.Audit{DB: w.DB}.Page(t.Context(),
						auditlog.AuditQuery{Workspace: p.Workspace, Before: before, Limit: 5 + 3*reader})
					if !assert.NoError(t, err) {
						return
					}
					list := page.Records
					if first && !assert.NotEmpty(t, list) {
						return
					}
					if len(list) == 0 {
						break
					}
					if first {
						want = list[0].Seq
					}
					for _, r := range list {
						if !assert.Equal(t, want, r.Seq) {
							return
						}
						want--
					}
					before = list[len(list)-1].Seq
				}
				if !assert.Zero(t, want, "the first record is the last") {
					return
				}
			}
		})
	}
	all.Wait()
}

// Each kind of event is shown as the event itself describes it, and by the last known name of its
// target. The events are the stored forms in events/testdata.
func TestAuditRecordsOfEachKind(t *testing.T) {
	t.Parallel()
	w := &world.World{URL: pgtest.URL(t), Clock: world.NewClock()}
	w.DB = world.Connect(t, w.URL)
	w.Follower = world.Follow(t, w.DB)
	w.Log = store.New(w.DB, nil, w.Follower.Moved) // the forms are unrelated: members change who never joined
	t.Cleanup(w.Log.Close)

	workspace := world.NewID()
	streams := map[string]events.ID{}
	for _, noun := range events.NounsWhere(func(events.Noun) bool { return true }) {
		streams[noun] = world.NewID()
	}
	streams["decision"] = streams["run"]
	kinds := events.Kinds()
	first := []string{"run.queued", "user.registered"} // their streams name the targets of others
	slices.SortStableFunc(kinds, func(a, b string) int {
		return slices.Index(first, b) - slices.Index(first, a)
	})
	names := map[events.ID]string{}
	var want []auditlog.AuditRecord
	for _, kind := range kinds {
		form, err := os.ReadFile(filepath.Join("..", "..", "events", "testdata", kind+".json"))
		require.NoError(t, err)
		e, err := events.Decode(kind, events.Schema(kind), form)
		require.NoError(t, err)
		r := w.Record(t, world.System, workspace, streams[events.NounOf(kind).Name], e)[0]
		shown := auditlog.AuditRecord{Target: r.Target(), Changes: r.Changes()}
		shown.Action, shown.Denied = r.Action()
		if name := &shown.Target.Name; *name != "" {
			names[shown.Target.ID] = *name
		} else if !shown.Target.ID.IsZero() {
			*name = names[shown.Target.ID]
		}
		want = append(want, shown)
	}
	require.Len(t, want, len(kinds))
	require.NotEmpty(t, names[streams["run"]])
	require.NotEmpty(t, names[streams["user"]])

	w.CaughtUp(t)
	page, err := auditlog.Audit{DB: w.DB}.Page(t.Context(), auditlog.AuditQuery{Workspace: workspace, Limit: 1000})
	require.NoError(t, err)
	list := page.Records
	slices.Reverse(list)
	for i := range list {
		require.Equal(t, kinds[i], list[i].Event.Kind())
		list[i].Record = events.Record{}
	}
	require.Equal(t, want, list)
}
