package runviews_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections/runviews"
	"svc/test/world"
)

// Counts by stage equal what the runs say, at every moment.
func TestRunsWithoutEventsBecomeStuck(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, asked := world.NewID(), world.NewID()
	at := func(minutes int) time.Time { return world.Epoch.Add(time.Duration(minutes) * time.Minute) }
	question := events.DecisionRaised{Decision: asked, About: events.FactReview}
	for i, story := range []runScript{
		{web, 1, "queued", nil},
		{web, 2, "analyzing", stagesEntered(events.StageAnalyze)},
		{api, 3, "asks", append(stagesEntered(events.StageAnalyze), question)},
		{api, 4, "codes again", append(stagesEntered(events.StageImplementing),
			events.RunStageEntered{Stage: events.StageImplementing, Attempt: 2})},
		{web, 5, "ended", append(stagesEntered(events.StageAnalyze), events.RunFailed{Repo: web.ID})},
	} {
		queueAt(t, w, at(i), workspace, story)
	}
	runs := runviews.Runs{DB: w.DB}
	list, _, err := runs.Page(t.Context(), runviews.RunQuery{Workspace: workspace, Active: true, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 3, 4}, issueNumbers(list))
	require.Equal(t, []events.DecisionKind{"", "", events.FactReview, ""}, []events.DecisionKind{
		list[0].WaitsFor, list[1].WaitsFor, list[2].WaitsFor, list[3].WaitsFor})
	require.Equal(t, 2, list[3].Round)

	for minutes, want := range map[int]struct {
		stuck int
		next  time.Time
	}{
		20: {0, at(31)}, 31: {1, at(33)}, 32: {1, at(33)}, 33: {2, time.Time{}}, 600: {2, time.Time{}},
	} {
		now := at(minutes)
		c, err := runs.Counts(t.Context(), workspace, nil, now)
		require.NoError(t, err)
		require.Equal(t, []int{4, 1}, []int{c.Active, c.Terminal})
		require.Equal(t, want.next.IsZero(), c.Stages.Next == nil, minutes)
		if c.Stages.Next != nil {
			require.WithinDuration(t, want.next, *c.Stages.Next, 0, minutes)
		}
		var sum runviews.StageCount
		for _, s := range c.Stages.List {
			sum.Runs, sum.Waiting, sum.Stuck = sum.Runs+s.Runs, sum.Waiting+s.Waiting, sum.Stuck+s.Stuck
		}
		require.Equal(t, runviews.StageCount{Runs: 4, Waiting: 1, Stuck: want.stuck}, sum, minutes)
		stuck := 0
		for _, r := range list {
			if since := r.StuckSince(now); since != nil {
				require.Equal(t, r.UpdatedAt, *since)
				stuck++
			}
		}
		require.Equal(t, want.stuck, stuck, minutes)
	}

	c, err := runs.Counts(t.Context(), workspace, &api.ID, at(40))
	require.NoError(t, err)
	require.Equal(t, []int{2, 0}, []int{c.Active, c.Terminal})
	require.Equal(t, runviews.StageCount{Runs: 1, Waiting: 1}, c.Stages.List[events.StageAnalyze.Index()])
	require.Equal(t, runviews.StageCount{Runs: 1, Stuck: 1}, c.Stages.List[events.StageImplementing.Index()])
}

// A run that says what it waits for, or has a job at the build farm, is not stuck.
func TestT11RunsThatWaitAreNotStuck(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, job, over := world.NewID(), world.NewID(), world.NewID()
	waits := events.RunWaiting{Code: events.WaitHost, Detail: "The code host does not answer."}
	queueAt(t, w, world.Epoch, workspace,
		runScript{web, 1, "waits", append(stagesEntered(events.StageAnalyze), waits, events.RunCostRecorded{Cents: 1})},
		runScript{web, 2, "waits for the farm", append(stagesEntered(events.StageAnalyze), events.RunJobRequested{Job: job})},
		runScript{web, 3, "waited", append(stagesEntered(events.StageAnalyze), waits, events.RunFactsRecorded{})},
		runScript{web, 4, "has built", append(stagesEntered(events.StageAnalyze), events.RunJobRequested{Job: over},
			events.RunJobSettled{Job: over, Status: "failed"})},
	)
	now := world.Epoch.Add(time.Hour)
	list, _, err := runviews.Runs{DB: w.DB}.Page(t.Context(), runviews.RunQuery{Workspace: workspace, Active: true, Limit: 10})
	require.NoError(t, err)
	var stuck []int
	for _, r := range list {
		if r.StuckSince(now) != nil {
			stuck = append(stuck, r.IssueNumber)
		}
	}
	require.ElementsMatch(t, []int{3, 4}, stuck)
	c, err := runviews.Runs{DB: w.DB}.Counts(t.Context(), workspace, nil, now)
	require.NoError(t, err)
	require.Equal(t, 2, c.Stages.List[events.StageAnalyze.Index()].Stuck)
}
