package runviews_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/projections/fold"
	"svc/projections/runviews"
	"svc/test/world"
)

// A runScript is a run with the events after it was queued.
type runScript struct {
	repo  events.Repo
	issue int
	title string
	facts []events.Event
}

// queueAt appends tales in one commit, so that all events have the same time, and returns the runs.
func queueAt(t *testing.T, w *world.World, at time.Time, workspace events.ID, tales ...runScript) (runs []events.ID) {
	t.Helper()
	c := &events.Commit{Workspace: workspace, At: at, Envelope: events.Envelope{Actor: world.System, Origin: events.FromSystem}}
	for _, story := range tales {
		run := world.NewID()
		queued := events.RunQueued{Repo: story.repo, IssueNumber: story.issue, IssueTitle: story.title}
		c.Writes = append(c.Writes, events.Write{Stream: run, Events: append([]events.Event{queued}, story.facts...)})
		runs = append(runs, run)
	}
	_, err := w.Log.Append(t.Context(), c)
	require.NoError(t, err)
	w.CaughtUp(t)
	return runs
}

func stagesEntered(stages ...events.Stage) (list []events.Event) {
	for _, s := range stages {
		list = append(list, events.RunStageEntered{Stage: s, Attempt: 1})
	}
	return list
}

var (
	web = events.Repo{ID: world.NewID(), Name: "acme/web"}
	api = events.Repo{ID: world.NewID(), Name: "acme/api"}
)

// issueNumbers returns the issue numbers of runs.
func issueNumbers(list []runviews.Run) []int {
	n := []int{}
	for _, r := range list {
		n = append(n, r.IssueNumber)
	}
	return n
}

func TestRunsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, other := world.NewID(), world.NewID()
	for i, tales := range [][]runScript{
		{{web, 1, "Fix date parsing", stagesEntered(events.StagePlan)}},
		{{web, 2, "100% CPU", nil}},
		{{api, 3, "Über_all", stagesEntered(events.StageAnalyze)}},
		{{web, 4, "fix it", nil}},
		{{web, 5, "Fix more", []events.Event{events.RunMerged{Repo: web.ID}}}},
		{{api, 6, "Fix 12", append(stagesEntered(events.StageAnalyze), events.RunFailed{Repo: api.ID})}},
		{{web, 7, "Reject ПРИВЕТ, Łódź, Straße", []events.Event{events.RunRejected{Repo: web.ID}}}},
		{{web, 12, "Twelve", stagesEntered(events.StageAnalyze)}},
	} {
		queueAt(t, w, world.Epoch.Add(time.Duration(i)*time.Minute), workspace, tales...)
	}
	queueAt(t, w, world.Epoch, other, runScript{web, 99, "Fix elsewhere", nil})

	for name, test := range map[string]struct {
		query runviews.RunQuery
		want  []int
		total int
	}{
		"those that move: by stage, the oldest first":  {runviews.RunQuery{Active: true}, []int{2, 4, 3, 12, 1}, 5},
		"those that stopped: the newest first":         {runviews.RunQuery{}, []int{7, 6, 5}, 3},
		"a page counts what is on all of them":         {runviews.RunQuery{Active: true, Limit: 2}, []int{2, 4}, 5},
		"the next page goes on":                        {runviews.RunQuery{Active: true, Limit: 2, Offset: 2}, []int{3, 12}, 5},
		"the last page is short":                       {runviews.RunQuery{Active: true, Limit: 2, Offset: 4}, []int{1}, 5},
		"behind the end is nothing":                    {runviews.RunQuery{Active: true, Limit: 2, Offset: 6}, []int{}, 5},
		"of one repository":                            {runviews.RunQuery{Active: true, Repo: &api.ID}, []int{3}, 1},
		"of one repository, stopped":                   {runviews.RunQuery{Repo: &api.ID}, []int{6}, 1},
		"of a repository without runs":                 {runviews.RunQuery{Active: true, Repo: &events.ID{}}, []int{}, 0},
		"a part of the title, of either case":          {runviews.RunQuery{Active: true, Q: "FIX"}, []int{4, 1}, 2},
		"a part of the title, beyond ASCII":            {runviews.RunQuery{Active: true, Q: "üb"}, []int{3}, 1},
		"Cyrillic in any case":                         {runviews.RunQuery{Q: "привет"}, []int{7}, 1},
		"a letter without decomposition":               {runviews.RunQuery{Q: "łódź"}, []int{7}, 1},
		"as people type it":                            {runviews.RunQuery{Q: "LODZ, STRASSE"}, []int{7}, 1},
		"a number is the issue's, whole":               {runviews.RunQuery{Active: true, Q: "12"}, []int{12}, 1},
		"a number may be part of a title too":          {runviews.RunQuery{Q: "12"}, []int{6}, 1},
		"a percent sign is itself":                     {runviews.RunQuery{Active: true, Q: "%"}, []int{2}, 1},
		"an underscore is itself":                      {runviews.RunQuery{Active: true, Q: "_"}, []int{3}, 1},
		"a quote is a quote":                           {runviews.RunQuery{Active: true, Q: `'`}, []int{}, 0},
		"a part of the title, of one repository":       {runviews.RunQuery{Repo: &web.ID, Q: "fix"}, []int{5}, 1},
		"what is elsewhere is not here":                {runviews.RunQuery{Active: true, Q: "elsewhere"}, []int{}, 0},
		"a workspace without runs":                     {runviews.RunQuery{Workspace: world.NewID(), Active: true}, []int{}, 0},
		"another workspace, the same repository":       {runviews.RunQuery{Workspace: other, Active: true, Repo: &web.ID}, []int{99}, 1},
		"another workspace has none that have stopped": {runviews.RunQuery{Workspace: other}, []int{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := test.query
			if q.Workspace.IsZero() {
				q.Workspace = workspace
			}
			if q.Limit == 0 {
				q.Limit = 50
			}
			list, total, err := runviews.Runs{DB: w.DB}.Page(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, test.want, issueNumbers(list))
			require.Equal(t, test.total, total)
		})
	}
}

func TestSearchListsTheNumberThenActiveThenEndedRuns(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, v := world.NewID(), runviews.Runs{DB: w.DB}
	for i, tales := range [][]runScript{
		{{web, 1, "Fix date parsing", stagesEntered(events.StagePlan)}},
		{{web, 2, "Fix it", nil}},
		{{web, 3, "Fix more", []events.Event{events.RunMerged{Repo: web.ID}}}},
		{{web, 4, "Fix 12", []events.Event{events.RunMerged{Repo: web.ID}}}},
		{{api, 12, "Twelve", []events.Event{events.RunRejected{Repo: api.ID}}}},
		{{api, 13, "After 12", nil}},
	} {
		queueAt(t, w, world.Epoch.Add(time.Duration(i)*time.Minute), workspace, tales...)
	}
	queueAt(t, w, world.Epoch, world.NewID(), runScript{web, 99, "Fix elsewhere", nil})
	for text, want := range map[string][]int{
		"fix": {2, 1, 4, 3}, "12": {12, 13, 4}, "acme/API": {13, 12}, "ﬁx": {2, 1, 4, 3}, "%": {}, "none": {},
	} {
		list, err := v.Search(t.Context(), workspace, text, 50)
		require.NoError(t, err)
		require.Equal(t, want, issueNumbers(list), text)
	}
	list, err := v.Search(t.Context(), workspace, "12", 1)
	require.NoError(t, err)
	require.Equal(t, []int{12}, issueNumbers(list))
}

// Runs with equal times have a stable order over all pages.
func TestRunsWithEqualTimesAreOrderedByID(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	const each = 9
	var moving, stopped []runScript
	for i := range each {
		moving = append(moving, runScript{web, i, "x", nil})
		stopped = append(stopped, runScript{web, i, "x", []events.Event{events.RunCancelled{Repo: web.ID}}})
	}
	queueAt(t, w, world.Epoch, workspace, append(moving, stopped...)...)
	for active, sign := range map[bool]int{true: 1, false: -1} {
		var last string
		seen := map[events.ID]bool{}
		for offset := 0; offset < each; offset += 2 {
			list, total, err := runviews.Runs{DB: w.DB}.Page(t.Context(),
				runviews.RunQuery{Workspace: workspace, Active: active, Limit: 2, Offset: offset})
			require.NoError(t, err)
			require.Equal(t, each, total)
			for _, r := range list {
				require.False(t, seen[r.ID])
				seen[r.ID] = true
				if last != "" {
					require.Equal(t, sign < 0, r.ID.String() < last)
				}
				last = r.ID.String()
			}
		}
		require.Len(t, seen, each)
	}
}

func TestARunShowsWhatItsEventsSay(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, job := world.NewID(), world.NewID()
	at := world.Epoch.Add(1_234_567 * time.Microsecond)
	run := queueAt(t, w, at, workspace, runScript{web, 7, "Fix it", []events.Event{
		events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1},
		events.RunStageSucceeded{Stage: events.StageAnalyze, Attempt: 1},
		events.RunBranchCreated{Branch: "run/7"},
		events.RunCommitsPushed{Head: "h1", Base: "b", Files: []events.FileChange{{Path: "a.go", Added: 2, Removed: 1}}},
		events.RunJobRequested{Job: job, Name: "test", Head: "h1"},
		events.RunJobSettled{Job: job, Status: "failed", ComputeMS: 90},
		events.RunPullRequestOpened{Number: 12},
		events.RunCostRecorded{Cents: 30}, events.RunCostRecorded{Cents: 12},
	}})[0]

	r, ok, err := runviews.Runs{DB: w.DB}.Get(t.Context(), workspace, run)
	require.NoError(t, err)
	require.True(t, ok)
	millis := at.Truncate(time.Millisecond)
	var statuses []string
	for _, s := range r.Detail.Stages {
		statuses = append(statuses, s.Status)
	}
	require.Equal(t, []string{"succeeded", "succeeded", "pending", "pending", "pending", "pending", "pending"}, statuses)
	require.Equal(t, runviews.RunStage{Status: "succeeded", Attempt: 1, StartedAt: &millis, FinishedAt: &millis}, r.Detail.Stages[1])
	require.Equal(t, "run/7 h1", r.Detail.Branch+" "+r.Detail.Head)
	require.Equal(t, []events.FileChange{{Path: "a.go", Added: 2, Removed: 1}}, r.Detail.Files)
	require.Equal(t, []runviews.RunJob{{ID: job, Name: "test", Status: "failed", ComputeMS: 90}}, r.Detail.Jobs)
	require.Equal(t, "unchecked", r.Detail.Guardrails)
	require.Equal(t, []any{12, int64(42), true, at, at}, []any{*r.PRNumber, r.CostCents, r.Active, r.CreatedAt.UTC(), r.UpdatedAt.UTC()})

	for what, id := range map[string][2]events.ID{"no run": {workspace, world.NewID()}, "another workspace's": {world.NewID(), run}} {
		_, ok, err = runviews.Runs{DB: w.DB}.Get(t.Context(), id[0], id[1])
		require.NoError(t, err)
		require.False(t, ok, what)
	}
}

// What a run waits for holds until its next event, and since when until there is another reason.
func TestARunShowsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	run := queueAt(t, w, world.Epoch, workspace, runScript{web, 7, "Fix it", nil})[0]
	for i, step := range []struct {
		fact   events.Event
		code   events.WaitCode
		detail string
		since  int // minutes
	}{
		{events.RunWaiting{Code: events.WaitSlot, Detail: "3 of 3 runs are active."}, events.WaitSlot, "3 of 3 runs are active.", 1},
		{events.RunWaiting{Code: events.WaitSlot, Detail: "4 of 4 runs are active."}, events.WaitSlot, "4 of 4 runs are active.", 1},
		{events.RunCostRecorded{Cents: 1}, events.WaitSlot, "4 of 4 runs are active.", 1},
		{events.RunWaiting{Code: events.WaitPaused}, events.WaitPaused, "", 4},
		{events.RunStarted{Slot: 1, RepoSlot: 1}, "", "", 0},
	} {
		at := func(minutes int) time.Time { return world.Epoch.Add(time.Duration(minutes) * time.Minute) }
		w.RecordAt(t, at(i+1), world.System, workspace, run, step.fact)
		w.CaughtUp(t)
		r, _, err := runviews.Runs{DB: w.DB}.Get(t.Context(), workspace, run)
		require.NoError(t, err)
		require.Equal(t, []any{step.code, step.detail}, []any{r.WaitCode, r.WaitDetail}, i)
		require.Equal(t, step.since == 0, r.WaitSince == nil, i)
		if step.since > 0 {
			require.WithinDuration(t, at(step.since), *r.WaitSince, 0, i)
		}
	}
}

// A run shows how it merges: its turn, its candidate, and what came of it.
func TestARunShowsItsMerge(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, code := world.NewID(), 1
	head := append(stagesEntered(events.StageMerge), events.RunBaseRead{Branch: "main", Commit: "b"},
		events.RunPlanRecorded{Summary: "x", Files: []string{"a.go"}, Risk: "low"},
		events.RunCommitsPushed{Head: "h", Total: &events.ChangeTotal{Files: 400, Added: 9, Removed: 8}},
		events.RunJobRequested{Job: world.NewID(), Name: "test", Purpose: events.JobRequired, Attempt: 2},
		events.RunCostRecorded{Unknown: true}, events.RunMergeApproved{Head: "h"}, events.RunLaneEntered{Branch: "main"},
		events.RunMergeCandidate{Head: "h", Base: "b", Commit: "c", Tree: "t"})
	settled := events.RunJobSettled{Job: head[4].(events.RunJobRequested).Job, Status: "timed_out", Reason: "run_timeout", ExitCode: &code}
	attempt, postpone := events.RunMergeAttempted{Head: "h", Commit: "c"}, events.RunMergePostponed{Head: "h"}
	merge := events.RunMerged{Repo: web.ID, Head: "h", MergeCommit: "m", Tree: "u", Base: "b", Method: "merge", Untested: true}
	all := append(head, settled, attempt, postpone, events.RunMergeCandidate{Head: "h", Base: "b2", Commit: "c2", Tree: "t2"}, attempt,
		events.RunStopRequested{}, merge, events.RunTidied{PullRequest: "merged", Branch: "deleted"})
	shown := func(n int) runviews.Run {
		run := queueAt(t, w, world.Epoch, workspace, runScript{web, n, "x", all[:n:n]})[0]
		r, _, err := runviews.Runs{DB: w.DB}.Get(t.Context(), workspace, run)
		require.NoError(t, err)
		return r
	}
	r := shown(len(head))
	require.Equal(t, []any{true, &runviews.RunCandidate{Base: "b", Commit: "c", Tree: "t"}, "main", true, 1},
		[]any{r.Detail.Lane, r.Detail.Candidate, r.Detail.Target, r.Detail.CostUnknown, r.OpenJobs})
	require.Equal(t, &events.ChangeTotal{Files: 400, Added: 9, Removed: 8}, r.Detail.Total)
	require.Equal(t, &runviews.RunPlan{Files: []string{"a.go"}, Risk: "low"}, r.Detail.Plan)
	r = shown(len(head) + 3)
	require.Equal(t, []any{events.RunStatusAwaitingApproval, true, (*runviews.RunCandidate)(nil), 1, 0},
		[]any{r.Status, r.Detail.Lane, r.Detail.Candidate, r.Detail.Postponed, r.OpenJobs})
	require.Equal(t, []runviews.RunJob{{ID: settled.Job, Name: "test", Status: "timed_out", Purpose: events.JobRequired, Attempt: 2,
		Reason: "run_timeout", ExitCode: &code}}, r.Detail.Jobs)
	r = shown(len(head) + 6)
	require.Equal(t, []any{events.RunStatusMerging, true}, []any{r.Status, r.Detail.Stopping})
	r = shown(len(all))
	require.Equal(t, []any{events.RunStatusMerged, false, false}, []any{r.Status, r.Detail.Stopping, r.Detail.Lane})
	require.Equal(t, &runviews.RunMerge{Commit: "m", Tree: "u", Base: "b", Method: "merge", Untested: true}, r.Detail.Merge)
	require.Equal(t, &runviews.RunTidied{PullRequest: "merged", Branch: "deleted"}, r.Detail.Tidied)
	require.Equal(t, int64(0), r.CostCents)
}

// The stages of a run while it goes back, and after it ends.
func TestStagesOfARun(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	up := stagesEntered(events.StageAnalyze, events.StagePlan, events.StageImplementing)
	for name, test := range map[string]struct {
		facts  []events.Event
		status events.RunStatus
		want   string // statuses of the stages, by their first two letters
	}{
		"queued":             {nil, events.RunStatusQueued, "ac pe pe pe pe pe pe"},
		"a slot became free": {up[:1], events.RunStatusAnalyzing, "su ac pe pe pe pe pe"},
		"needs input": {append(up[:1:1], events.DecisionRaised{Decision: world.NewID(), About: events.FactReview}),
			events.RunStatusNeedsInput, "su bl pe pe pe pe pe"},
		"a stage failed": {append(up[:1:1], events.RunStageFailed{Stage: events.StageAnalyze, Attempt: 1}), events.RunStatusAnalyzing,
			"su fa pe pe pe pe pe"},
		"back to the first": {append(withSuccesses(up), events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 2}),
			events.RunStatusAnalyzing, "su ac pe pe pe pe pe"},
		"cancelled in between": {append(withSuccesses(up[:2]), events.RunCancelled{}), events.RunStatusCancelled, "su su su sk sk sk sk"},
		"cancelled in a stage": {
			append(withSuccesses(up[:1]), up[1], events.RunCancelled{}), events.RunStatusCancelled, "su su sk sk sk sk sk",
		},
		"failed in a stage":      {append(withSuccesses(up[:1]), up[1], events.RunFailed{}), events.RunStatusFailed, "su su fa sk sk sk sk"},
		"cancelled in the queue": {[]events.Event{events.RunCancelled{}}, events.RunStatusCancelled, "sk sk sk sk sk sk sk"},
	} {
		t.Run(name, func(t *testing.T) {
			workspace := world.NewID()
			run := queueAt(t, w, world.Epoch, workspace, runScript{web, 1, "x", test.facts})[0]
			r, _, err := runviews.Runs{DB: w.DB}.Get(t.Context(), workspace, run)
			require.NoError(t, err)
			got := ""
			for _, s := range r.Detail.Stages {
				got += " " + s.Status[:2]
			}
			require.Equal(t, test.want, got[1:])
			require.Equal(t, test.status, r.Status)
			require.Equal(t, test.status.Active(), r.Active)
			require.Equal(t, !r.Active, r.FinishedAt != nil)
		})
	}
}

// A stage of a newer build is shown after the known ones, and its events are not parked.
func TestStageOfNewerBuildIsShown(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	const scan, sign = events.Stage("security_scan"), events.Stage("sign")
	workspace := world.NewID()
	facts := withSuccesses(stagesEntered(events.StageAnalyze, events.StagePlan, events.StageImplementing))
	facts = append(facts, withSuccesses(stagesEntered(scan))...)
	facts = append(facts, events.RunStageFailed{Stage: sign, Attempt: 1}, events.RunStageEntered{Stage: scan, Attempt: 2})
	facts = facts[:len(facts):len(facts)]
	first, second := events.DecisionRaised{Decision: world.NewID(), About: "license_review"},
		events.DecisionRaised{Decision: world.NewID(), About: "license_review"}
	run := queueAt(t, w, world.Epoch, workspace,
		runScript{web, 1, "x", append(facts, first, events.DecisionVoided{Decision: first.Decision, About: "license_review"})},
		runScript{web, 2, "y", append(facts, second)})
	for i, status := range []string{"active", "blocked"} {
		r, _, err := runviews.Runs{DB: w.DB}.Get(t.Context(), workspace, run[i])
		require.NoError(t, err)
		require.Len(t, r.Detail.Stages, len(events.Stages())+2)
		require.Equal(t, []string{"security_scan", status}, []string{r.Detail.Stages[r.Stage].Name, r.Detail.Stages[r.Stage].Status})
		require.Equal(t, 2, r.Detail.Stages[r.Stage].Attempt)
		require.Equal(t, []string{"sign", "failed"}, []string{r.Detail.Stages[r.Stage+1].Name, r.Detail.Stages[r.Stage+1].Status})
		require.Equal(t, []events.RunStatus{events.RunStatusUnknown, events.RunStatusNeedsInput}[i], r.Status)
	}
	o, err := projections.Dashboard{DB: w.DB}.Get(t.Context(), workspace, 10, world.Epoch.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, []runviews.StageCount{{}, {}, {}, {}, {}, {}, {}, {Runs: 2, Waiting: 1}}, o.Stages.List)
	require.Equal(t, map[events.DecisionKind]int{"license_review": 1}, o.Waiting.ByKind)
	require.Zero(t, o.Slots, "it has no farm")
	parked, err := fold.ListParked(t.Context(), w.DB)
	require.NoError(t, err)
	require.Empty(t, parked)
	world.Rebuild(t, w.DB, world.View(t, "runs"))
	again, _, err := runviews.Runs{DB: w.DB}.Get(t.Context(), workspace, run[0])
	require.NoError(t, err)
	require.Equal(t, "security_scan", again.Detail.Stages[again.Stage].Name)

	_, err = w.Log.Append(t.Context(), &events.Commit{Workspace: workspace, At: world.Epoch, Writes: []events.Write{{
		Stream: run[0], Version: 1 + len(facts) + 2, Events: stagesEntered(events.StageBuildFarm),
	}}})
	require.NoError(t, err)
	w.CaughtUp(t)
	r, _, err := runviews.Runs{DB: w.DB}.Get(t.Context(), workspace, run[0])
	require.NoError(t, err)
	require.Equal(t, []any{events.RunStatusBuilding, "active"}, []any{r.Status, r.Detail.Stages[r.Stage].Status},
		"the newer build leads it on")
}

// withSuccesses adds the success of each stage that is entered.
func withSuccesses(list []events.Event) (all []events.Event) {
	for _, e := range list {
		all = append(all, e, events.RunStageSucceeded{Stage: e.(events.RunStageEntered).Stage, Attempt: 1})
	}
	return all
}
