package commands_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/test/world"
)

// startReview starts a run that waits for a review of its facts.
func (m *team) startReview(t *testing.T, issue int) (run, decision events.ID) {
	t.Helper()
	run, decision = m.queue(t, issue), newID()
	_, err := m.RecordRun(t.Context(), commands.RecordRun{Meta: systems(m.id), Run: run, Facts: []events.Event{
		events.RunStarted{Slot: issue, RepoSlot: issue}, events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1},
		events.DecisionRaised{Decision: decision, About: events.FactReview, Question: "Is it?"},
	}})
	require.NoError(t, err)
	return run, decision
}

func answer(by person, workspace, run, decision events.ID, action string) commands.AnswerDecision {
	return commands.AnswerDecision{Meta: by.in(workspace), Run: run, Answer: aggregates.Answer{Decision: decision, Action: action}}
}

func TestAnswerDecision(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	run, decision := m.startReview(t, 7)
	before := m.head(t, m.id)
	_, err := m.other.AnswerDecision(t.Context(), answer(m.maintainer, m.id, run, decision, aggregates.ActionReject))
	require.NoError(t, err)
	m.requireAdded(t, m.id, before,
		events.DecisionAnswered{Decision: decision, About: events.FactReview, Action: aggregates.ActionReject}, events.RunRejected{Repo: web.ID})
	m.queue(t, 7) // the issue is free again

	_, err = m.AnswerDecision(t.Context(), answer(m.owner, m.id, run, newID(), aggregates.ActionConfirm))
	require.ErrorIs(t, err, aggregates.ErrNoDecision)
	_, err = m.AnswerDecision(t.Context(), answer(m.owner, m.id, newID(), decision, aggregates.ActionConfirm))
	require.ErrorIs(t, err, aggregates.ErrNoDecision)
}

// A person cancels a run that is being merged: it stops after the attempt, and is asked for once.
func TestCancelWhileMerging(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	run, decision := m.queue(t, 7), newID()
	record := func(facts ...events.Event) {
		t.Helper()
		_, err := m.RecordRun(t.Context(), commands.RecordRun{Meta: systems(m.id), Run: run, Facts: facts})
		require.NoError(t, err)
	}
	record(world.ToApproval(7, "h", decision)...)
	approve := answer(m.maintainer, m.id, run, decision, aggregates.ActionApproveAndMerge)
	approve.ExpectedHead = "h"
	_, err := m.AnswerDecision(t.Context(), approve)
	require.NoError(t, err)
	record(world.Merging("h")...)

	before := m.head(t, m.id)
	for _, r := range []replica{m.replica, m.other} {
		_, err = r.CancelRun(t.Context(), commands.CancelRun{Meta: m.owner.in(m.id), Run: run, Reason: "Wait."})
		require.NoError(t, err)
	}
	m.requireAdded(t, m.id, before, events.RunStopRequested{Reason: "Wait."})
	record(events.RunMergePostponed{Head: "h", Reason: "base_moved"}, events.RunCancelled{Reason: "Wait."})
	m.queue(t, 7) // the issue is free again
}

// Two people answer at the same moment through two replicas: one of the answers counts.
func TestConcurrentAnswers(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for i := range 25 {
		run, decision := m.startReview(t, i+1)
		before := m.head(t, m.id)
		requireOne(t, race(func(i int) error {
			by, handler := m.owner, m.replica
			if i == 0 {
				by, handler = m.maintainer, m.other
			}
			_, err := handler.AnswerDecision(t.Context(), answer(by, m.id, run, decision, aggregates.ActionConfirm))
			return err
		}), aggregates.ErrDecisionAnswered)
		// The answer, the intervention that it counts as, and the denial of the other
		// answer.
		require.LessOrEqual(t, m.head(t, m.id), before+3)
	}
}

// A right that is revoked at the same moment does not count for the decision.
func TestConcurrentDemotionAndAnswer(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for i := range 25 {
		run, decision := m.startReview(t, i+1)
		errs := race(func(i int) error {
			if i == 0 {
				_, err := m.UpdateMember(t.Context(),
					commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.maintainer.member, Role: ptr(events.Viewer)})
				return err
			}
			_, err := m.other.AnswerDecision(t.Context(), answer(m.maintainer, m.id, run, decision, aggregates.ActionConfirm))
			return err
		})
		require.NoError(t, errs[0])
		var demoted, answered int64
		require.NoError(t, m.db.QueryRow(t.Context(), `
			select max(seq) filter (where kind = 'member.role_changed'), coalesce(max(seq) filter (where kind = 'decision.answered'
				and stream = $2), 0)
			from events where workspace_id = $1`, m.id, run).Scan(&demoted, &answered))
		if errs[1] == nil {
			require.Less(t, answered, demoted)
		} else {
			require.ErrorIs(t, errs[1], aggregates.ErrRoleRequired)
			require.Zero(t, answered)
		}
		_, err := m.UpdateMember(t.Context(),
			commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.maintainer.member, Role: ptr(events.Maintainer)})
		require.NoError(t, err)
	}
}

// issue returns a command of the owner for an issue of the repository web.
func (m *team) issue(title string) commands.QueueIssue {
	return commands.QueueIssue{
		Meta: m.owner.in(m.id), Run: newID(), Repo: web.ID, RepoName: web.Name, Title: title,
	}
}

func TestQueueIssue(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	queue := m.issue("Sort labels")
	queue.Body = "By name."
	for _, explicit := range []int{2, 6} { // an issue of the code host
		chosen := m.issue("")
		chosen.IssueNumber = explicit
		_, err := m.QueueIssue(t.Context(), chosen)
		require.NoError(t, err)
	}
	before := m.head(t, m.id)
	_, err := m.QueueIssue(t.Context(), queue)
	require.NoError(t, err)
	m.requireAdded(t, m.id, before, events.RunQueued{Repo: web, IssueNumber: 7, IssueTitle: "Sort labels", IssueBody: "By name."})

	queue.Run, queue.Meta = newID(), m.viewer.in(m.id)
	_, err = m.QueueIssue(t.Context(), queue)
	require.ErrorIs(t, err, aggregates.ErrRoleRequired)
	queue.Run, queue.Meta, queue.IssueNumber = newID(), m.owner.in(m.id), 7
	_, err = m.QueueIssue(t.Context(), queue)
	require.ErrorIs(t, err, aggregates.ErrQueued)

	queue.Run, queue.Meta, queue.IssueNumber = newID(), keyed(m.owner.in(m.id), "q-1"), 8
	_, err = m.QueueIssue(t.Context(), queue)
	require.NoError(t, err)
	queue.Run, queue.RepoName = newID(), "acme/site"
	repeated, err := m.QueueIssue(t.Context(), queue)
	require.NoError(t, err, "it is the same request after the repository was renamed")
	require.True(t, repeated.Replayed)
}

// Whatever numbers people choose, a repository has a next number, and the service's own can be queued again.
func TestChosenIssueNumbersLeaveRoom(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	queue := func(number int) error {
		chosen := m.issue("Sort labels")
		chosen.IssueNumber = number
		_, err := m.QueueIssue(t.Context(), chosen)
		return err
	}
	require.ErrorIs(t, queue(1_000_000_001), fault.ErrValidation)
	require.ErrorIs(t, queue(math.MaxInt32), fault.ErrValidation)
	require.NoError(t, queue(1_000_000_000))
	require.NoError(t, queue(0))
	require.ErrorIs(t, queue(1_000_000_001), aggregates.ErrQueued, "that is an issue here now")
	require.ErrorIs(t, queue(1_000_000_002), fault.ErrValidation)
}

func TestCancelRun(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	run, decision := m.startReview(t, 7)
	cancel := func(by person) error {
		_, err := m.other.CancelRun(t.Context(), commands.CancelRun{Meta: by.in(m.id), Run: run, Reason: "No longer needed."})
		return err
	}
	require.ErrorIs(t, cancel(m.viewer), aggregates.ErrRoleRequired)
	require.ErrorIs(t, cancel(m.nobody), fault.ErrTenantNotFound)
	before := m.head(t, m.id)
	require.NoError(t, cancel(m.maintainer))
	m.requireAdded(t, m.id, before,
		events.DecisionVoided{Decision: decision, About: events.FactReview, Reason: "run_over"},
		events.RunCancelled{Repo: web.ID, Reason: "No longer needed."})
	require.ErrorIs(t, cancel(m.maintainer), aggregates.ErrRunOver)
	m.queue(t, 7) // the issue is free again
}
