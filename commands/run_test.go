package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

var web = events.Repo{ID: newID(), Name: "acme/web"}

func queue(workspace events.ID, issue int) commands.QueueRun {
	return commands.QueueRun{Meta: systems(workspace), Run: newID(), Repo: web, IssueNumber: issue, IssueTitle: "Fix it"}
}

// queue puts an issue in the queue and returns its run.
func (m *team) queue(t *testing.T, issue int) events.ID {
	t.Helper()
	c := queue(m.id, issue)
	_, err := m.QueueRun(t.Context(), c)
	require.NoError(t, err)
	return c.Run
}

func TestQueueRun(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	c := queue(m.id, 7)
	done, err := m.QueueRun(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, before+1, done.Position)
	m.requireAdded(t, m.id, before, events.RunQueued{Repo: web, IssueNumber: 7, IssueTitle: "Fix it"})

	for name, test := range map[string]struct {
		change func(*commands.QueueRun)
		want   error
	}{
		"the issue has a run":  {func(c *commands.QueueRun) { c.Run = newID() }, aggregates.ErrQueued},
		"the run has an issue": {func(c *commands.QueueRun) { c.IssueNumber = 8 }, aggregates.ErrQueued},
		"the same once more":   {func(c *commands.QueueRun) {}, aggregates.ErrQueued},
		"no repository":        {func(c *commands.QueueRun) { c.Run, c.Repo = newID(), events.Repo{} }, fault.ErrValidation},
		"no issue":             {func(c *commands.QueueRun) { c.Run, c.IssueNumber = newID(), 0 }, fault.ErrValidation},
		"an issue beyond all":  {func(c *commands.QueueRun) { c.Run, c.IssueNumber = newID(), 1<<31 }, fault.ErrValidation},
		"a title with a NUL": {func(c *commands.QueueRun) { c.Run, c.IssueNumber, c.IssueTitle = newID(), 9, "a\x00b" },
			fault.ErrValidation},
		"a repository with a NUL": {func(c *commands.QueueRun) { c.Run, c.Repo.Name = newID(), "a\x00b" }, fault.ErrValidation},
		"another repository's":    {func(c *commands.QueueRun) { c.Run, c.Repo = newID(), events.Repo{ID: newID(), Name: "acme/api"} }, nil},
		"another workspace's run": {func(c *commands.QueueRun) { c.Run, c.Workspace = newID(), newID() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			test.change(&c)
			for _, handler := range []replica{m.other, m.replica} {
				before := m.head(t, c.Workspace)
				_, err := handler.QueueRun(t.Context(), c)
				require.ErrorIs(t, err, test.want)
				if test.want == nil {
					return
				}
				require.Equal(t, before, m.head(t, c.Workspace))
			}
		})
	}
}

func TestIssueIsFreeAfterItsRun(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for i, end := range []events.Event{
		events.RunCancelled{Repo: web.ID}, events.RunRejected{Repo: web.ID},
		events.RunFailed{Repo: web.ID, Stage: events.StageAnalyze},
	} {
		run := m.queue(t, i+1)
		record := commands.RecordRun{Meta: systems(m.id), Run: run,
			Facts: []events.Event{events.RunStarted{Slot: 1, RepoSlot: 1}, events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1}, end}}
		_, err := m.other.RecordRun(t.Context(), record)
		require.NoError(t, err)
		next := m.queue(t, i+1)
		_, err = m.other.QueueRun(t.Context(), queue(m.id, i+1))
		require.ErrorIs(t, err, aggregates.ErrQueued, "%s has it", next)
	}
}

// R34: each time that an issue gets a label it is queued once, whatever becomes of the run.
func TestR34LabelQueuesOnce(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	labelled := func(event string) commands.QueueRun {
		c := queue(m.id, 7)
		c.Meta, c.Label = systems(m.id), &events.RunLabel{Name: "svc", By: "zoe", Event: event}
		return c
	}
	first := labelled("21")
	_, err := m.QueueRun(t.Context(), first)
	require.NoError(t, err)
	_, err = m.other.QueueRun(t.Context(), labelled("22"))
	require.ErrorIs(t, err, aggregates.ErrQueued, "the run is active")
	_, err = m.CancelRun(t.Context(), commands.CancelRun{Meta: m.owner.in(m.id), Run: first.Run, Reason: "No."})
	require.NoError(t, err)
	_, err = m.other.QueueRun(t.Context(), labelled("21"))
	require.ErrorIs(t, err, aggregates.ErrQueued)
	_, err = m.other.QueueRun(t.Context(), labelled("22"))
	require.NoError(t, err)
}

func TestRecordRun(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	run := m.queue(t, 1)
	account, _ := m.account(t, "ci-bot")
	entered := func(s events.Stage, attempt int) events.Event {
		return events.RunStageEntered{Stage: s, Attempt: attempt}
	}
	succeeded := func(s events.Stage, attempt int) events.Event {
		return events.RunStageSucceeded{Stage: s, Attempt: attempt}
	}
	for _, step := range []struct {
		what  string
		run   events.ID
		facts []events.Event
		want  error
	}{
		{"a run that is not there", newID(), []events.Event{entered(events.StageAnalyze, 1)}, aggregates.ErrNoRun},
		{"a service account", account, []events.Event{entered(events.StageAnalyze, 1)}, aggregates.ErrNoRun},
		{"the workspace", m.id, []events.Event{entered(events.StageAnalyze, 1)}, aggregates.ErrNoRun},
		{"a stage too far", run, []events.Event{entered(events.StagePlan, 1)}, aggregates.ErrRunOutOfStep},
		{"a stage without a place", run, []events.Event{entered(events.StageAnalyze, 1)}, aggregates.ErrRunOutOfStep},
		{"facts that follow", run, []events.Event{events.RunStarted{Repo: web.ID, Slot: 1, RepoSlot: 1}, entered(events.StageAnalyze, 1),
			succeeded(events.StageAnalyze, 1)}, nil},
		{"one that follows and one that does not", run, []events.Event{entered(events.StagePlan, 1), succeeded(events.StageMerge, 1)},
			aggregates.ErrRunOutOfStep},
		{"no fact", run, nil, nil},
		{"a pull request beyond all", run, []events.Event{events.RunPullRequestOpened{Number: 1 << 31}}, aggregates.ErrRunOutOfStep},
		{"back to an earlier stage", run, []events.Event{entered(events.StageAnalyze, 2)}, nil},
		{"its end", run, []events.Event{events.RunCancelled{Repo: web.ID, Reason: "enough"}}, nil},
		{"more after the end", run, []events.Event{succeeded(events.StageAnalyze, 2)}, aggregates.ErrRunOver},
		{"a late bill", run, []events.Event{events.RunCostRecorded{Repo: web.ID, Cents: 3, Key: "farm/1"}}, nil},
		{"the same bill", run, []events.Event{events.RunCostRecorded{Repo: web.ID, Cents: 3, Key: "farm/1"}}, aggregates.ErrRunOutOfStep},
	} {
		before := m.head(t, m.id)
		done, err := m.RecordRun(t.Context(), commands.RecordRun{Meta: systems(m.id), Run: step.run, Facts: step.facts})
		require.ErrorIs(t, err, step.want, step.what)
		if step.want == nil {
			require.Equal(t, before+int64(len(step.facts)), m.head(t, m.id), step.what)
			if len(step.facts) > 0 {
				require.Equal(t, m.head(t, m.id), done.Position, step.what)
			}
			m.requireAdded(t, m.id, before, step.facts...)
			continue
		}
		m.requireAdded(t, m.id, before)
	}
}

// A run in a stage that only a newer build knows can be loaded and cancelled.
func TestRunInStageOfNewerBuild(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	run := m.queue(t, 1)
	_, err := m.log.Append(t.Context(), &events.Commit{
		Workspace: m.id, At: epoch,
		Writes: []events.Write{{Stream: run, Version: 1, Events: []events.Event{events.RunStageEntered{Stage: "security_scan", Attempt: 1}}}},
	})
	require.NoError(t, err)
	for _, h := range []replica{m.replica, m.other} {
		_, err := h.RecordRun(t.Context(),
			commands.RecordRun{Meta: systems(m.id), Run: run, Facts: []events.Event{events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1}}})
		require.ErrorIs(t, err, aggregates.ErrRunOutOfStep)
	}
	_, err = m.CancelRun(t.Context(), commands.CancelRun{Meta: m.owner.in(m.id), Run: run})
	require.NoError(t, err)
}
