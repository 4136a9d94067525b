package runs

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// Every code has a sentence and a mark, and those of a newer version are shown as they are.
func TestEveryWaitHasWords(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../events/run.go")
	require.NoError(t, err)
	codes := regexp.MustCompile(`WaitCode = "(\w+)"`).FindAllSubmatch(source, -1)
	require.Len(t, codes, len(waitTitles))
	for _, code := range codes {
		require.Contains(t, waitTitles, string(code[1]))
		require.Contains(t, waitMarks, string(code[1]))
	}
	unknown := client.RunWait{Code: "new_reason"}
	require.Equal(t, "Waits: new reason.", waitTitle(unknown))
	require.Equal(t, "New reason", waitMark(unknown))
}

func TestWaitIsShownSinceWhen(t *testing.T) {
	t.Parallel()
	var d runData
	d.Run.Wait = &client.RunWait{Code: "lane", Detail: "Second in line, after #12.", Since: time.Date(2026, 11, 20, 11, 58, 0, 0, time.UTC)}
	shown := renderRun(t, "/w/acme/runs/7", d)
	require.Contains(t, shown, "Waits for its turn to merge.")
	require.Contains(t, shown, "Second in line, after #12.")
	require.Contains(t, shown, ">2 minutes ago</time>")
}

// A cost of which nothing is known is not shown as none.
func TestUnknownCost(t *testing.T) {
	t.Parallel()
	var d runData
	require.Contains(t, renderRun(t, "/w/acme/runs/7", d), "$0.00")
	d.Resources.CostUnknown = true
	require.NotContains(t, renderRun(t, "/w/acme/runs/7", d), "$0.00")
	d.Resources.CostCents = 12
	require.Contains(t, renderRun(t, "/w/acme/runs/7", d), "and a part that is unknown")
}

func TestMerge(t *testing.T) {
	t.Parallel()
	var d runData
	d.Merge = &client.RunMerge{Commit: "4be7a90c15d2", Base: "abc1234def", Method: client.RunMergeMethodMerge}
	tested := renderRun(t, "/w/acme/runs/7", d)
	require.Contains(t, tested, "Tested against base")
	require.Contains(t, tested, "abc1234<")
	require.NotContains(t, tested, "has not been tested")
	d.Merge.Untested, d.Merge.Outside, d.Merge.By = true, true, "octocat"
	require.Contains(t, renderRun(t, "/w/acme/runs/7", d), "has not been tested")
}

func TestPlanBesideChanges(t *testing.T) {
	t.Parallel()
	var d runData
	require.Empty(t, d.unplanned())
	d.Plan = client.RunPlan{Files: []string{"a.go", "b.go"}, Risk: "high"}
	require.False(t, d.isUntouched("a.go"), "nothing is changed yet")
	d.Changes.Items = []client.FileChange{{Path: "b.go"}, {Path: "c.go"}}
	require.True(t, d.isUntouched("a.go"))
	require.Equal(t, []string{"c.go"}, d.unplanned())
	require.Contains(t, renderRun(t, "/w/acme/runs/7", d), "Changed besides")
}

func TestAttemptsOfJobs(t *testing.T) {
	t.Parallel()
	required := client.RunJobPurposeRequired
	j := client.RunJob{Name: "test", Purpose: &required, Attempt: 2, Round: 1, Status: client.RunJobStatusFailed, ExitCode: new(int64(3))}
	require.Equal(t, "tests the head, attempt 2, failed with exit code 3", jobSummary(j))
}

// The page of a cancelled run says what happened to each stage, and promises nothing more of it.
func TestCancelledRun(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 11, 58, 0, 0, time.UTC)
	var d runData
	d.Run.Id, d.Run.Status = "7", client.RunStatusCancelled
	d.Timeline.Stages = []client.Stage{
		{Label: "Analyze", Status: client.StageStatusSucceeded, StartedAt: &at, FinishedAt: &at},
		{Label: "Plan", Status: client.StageStatusSkipped, StartedAt: &at, FinishedAt: &at},
		{Label: "Merge", Status: client.StageStatusSkipped},
	}
	require.Equal(t, map[string]string{"Plan": "stopped when the run was cancelled", "Merge": "not reached"}, d.notes())
	shown := renderRun(t, "/w/acme/runs/7", d)
	require.NotContains(t, shown, " yet")
	require.NotContains(t, shown, "appear here when")
	require.Contains(t, shown, "Queue the issue again")
	d.Run.Status = client.RunStatusMerged
	require.Equal(t, "not needed", d.notes()["Merge"], "people merged it at the host")
}

// An ended run can be tried again by those who may queue, unless it was merged.
func TestTryAgain(t *testing.T) {
	t.Parallel()
	var d runData
	d.Run.Id, d.Run.Status = "7", client.RunStatusFailed
	require.Contains(t, renderRun(t, "/w/acme/runs/7", d), "Only an Owner or Maintainer can queue an issue.")
	d.Run.Status = client.RunStatusMerged
	require.NotContains(t, renderRun(t, "/w/acme/runs/7", d), "Queue the issue again")
}
