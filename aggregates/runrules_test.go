package aggregates

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// A recordable says whether a run with a history may have a fact, and is one row of a rule's table.
type recordable struct {
	name  string
	given []events.Event
	fact  events.Event
	err   error
}

// checkFacts checks that facts are recorded as they are, or refused.
func checkFacts(t *testing.T, rows []recordable) {
	t.Helper()
	var specs []spec[Run]
	for _, c := range rows {
		s := spec[Run]{name: c.name, given: c.given, when: record(c.fact), err: c.err}
		if c.err == nil {
			s.then = []events.Event{c.fact}
		}
		specs = append(specs, s)
	}
	check(t, specs)
}

var (
	outOfStep  = error(ErrRunOutOfStep)
	candidate2 = events.RunMergeCandidate{Head: head1, Base: head2, Commit: commit1, Tree: tree2}
	laneJob    = requested(later, events.JobLane, commit1)
	laneReady  = after(laned, candidate2, laneJob, settled(later, events.JobStateSucceeded))
	attempt1   = events.RunMergeAttempted{Head: head1, Commit: commit1}
	postpone   = events.RunMergePostponed{Head: head1, Reason: "base_moved"}
	byPerson   = events.RunCommitsPushed{Head: head2, Base: base1, By: events.PushedByPerson}
)

// A merge at the code host is recorded whatever the run was doing, and whichever commit it was.
func TestT1MergesOutsideHappenInEveryActiveStatus(t *testing.T) {
	outside := events.RunMerged{Repo: repo.ID, Head: head2, MergeCommit: commit1, Outside: true, By: "somebody"}
	var rows []recordable
	for name, given := range map[string][]events.Event{
		"queued": inQueue, "analyzing": inAnalysis, "planning": planning, "coding": coded, "building": building, "reviewing": reviewing,
		"awaiting": awaiting, "merging": merging, "stopped": after(stopping, postpone), "taken back": mergingAnyway,
	} {
		rows = append(rows, recordable{name, given, outside, nil})
	}
	for name, given := range map[string][]events.Event{"merged": merged, "rejected": rejected, "failed": givenUp, "cancelled": cancelled} {
		rows = append(rows, recordable{name, given, outside, ErrRunOver})
	}
	another := theMerge
	another.Tree = tree2
	untested := another
	untested.Untested = true
	oldAttempt := after(approved, events.RunMergeAttempted{Head: head1})
	checkFacts(t, append(rows,
		recordable{"one of our own needs an attempt", ready, theMerge, outOfStep},
		recordable{"with a candidate", oldAttempt, theMerge, outOfStep},
		recordable{"another tree than was tested has to be called untested", merging, another, outOfStep},
		recordable{"and is recorded if it is", merging, untested, nil},
	))
	check(t, []spec[Run]{{name: "open decisions are void", given: waiting, when: record(outside),
		then: []events.Event{pointless(events.ProtectedPathOnce, "run_over"), outside}}})
}

// An attempt that did not merge leaves the approval as it is: the approval is of the head.
func TestT2ApprovalsStayWhileTheHeadDoes(t *testing.T) {
	often := merging
	for range maxPostponed {
		often = after(often, postpone, candidate, attempt1)
	}
	stopped := after(stopping, postpone)
	checkFacts(t, []recordable{
		{"an attempt is postponed", merging, postpone, nil},
		{"not one of another head", merging, events.RunMergePostponed{Head: head2}, outOfStep},
		{"not without an attempt", ready, postpone, outOfStep},
		{"not twice", postponed, postpone, outOfStep},
		{"ten times at most", often, postpone, outOfStep},
		{"then the approval has to be asked for again", often, events.RunMergeApprovalVoided{Head: head1}, nil},
		{"another candidate follows", postponed, candidate, nil},
		{"and its attempt", after(postponed, candidate), attempt1, nil},
		{"not without one", postponed, attempt1, outOfStep},
		{"the stage cannot fail while the outcome is not known", merging, failed(events.StageMerge, 1), outOfStep},
		{"nor is it left", merging, entered(events.StageImplementing, 2), outOfStep},
		{"a conflict leads back to the code", postponed, entered(events.StageImplementing, 2), nil},
		{"a stopped run is cancelled", stopped, events.RunCancelled{Repo: repo.ID}, nil},
		{"or was turned down at the code host", stopped, events.RunRejected{Repo: repo.ID}, nil},
		{"it may wait for the code host", stopped, events.RunWaiting{Code: events.WaitHost}, nil},
		{"nothing else follows: no candidate", stopped, candidate, outOfStep},
		{"no attempt", after(stopping, postpone, candidate), attempt1, outOfStep},
		{"no stage", stopped, entered(events.StageImplementing, 2), outOfStep},
		{"no push", stopped, byPerson, outOfStep},
		{"no failure", stopped, events.RunFailed{Repo: repo.ID}, outOfStep},
		{"no job", stopped, requested(later, events.JobRequired, head1), outOfStep},
		{"the attempt that runs may still succeed", stopping, theMerge, nil},
		{"nobody but a person stops a run", merging, events.RunStopRequested{}, outOfStep},
	})
	p := folded[Run](postponed).Progress(id(1), 9)
	require.Equal(t, events.RunStatusAwaitingApproval, p.Status)
	require.Equal(t, []any{head1, question, true, (*events.RunMergeCandidate)(nil), 1, false},
		[]any{p.Approved, p.ApprovedBy, p.Lane, p.Candidate, p.Postponed, p.Attempted})
	p = folded[Run](after(merging, byPerson, events.RunMergeApprovalVoided{Head: head1})).Progress(id(1), 9)
	require.Equal(t, events.RunStatusAwaitingApproval, p.Status)
	require.Equal(t, []any{"", false, (*events.RunMergeCandidate)(nil), head2, events.PushedByPerson},
		[]any{p.Approved, p.Lane, p.Candidate, p.Head, p.HeadBy})
}

func TestT3EachBillIsRecordedOnce(t *testing.T) {
	bill := func(key string, cents int64, unknown bool) events.RunCostRecorded {
		return events.RunCostRecorded{Repo: repo.ID, Cents: cents, Key: key, Unknown: unknown}
	}
	paid := after(coded, bill("job/1/farm", 3, false), events.RunCostRecorded{Repo: repo.ID, Cents: 4}, bill("job/1/model", 0, true))
	checkFacts(t, []recordable{
		{"a bill", coded, bill("job/1/farm", 3, false), nil},
		{"another", paid, bill("job/2/farm", 3, false), nil},
		{"not the same", paid, bill("job/1/farm", 3, false), outOfStep},
		{"not with another sum", paid, bill("job/1/farm", 5, false), outOfStep},
		{"not the one that nobody knows", paid, bill("job/1/model", 5, false), outOfStep},
		{"not without a key", coded, bill("", 3, false), outOfStep},
		{"not below nothing", coded, bill("k", -1, false), outOfStep},
		{"what nobody knows is not known", coded, bill("k", 1, true), outOfStep},
		{"nobody knows it", coded, bill("k", 0, true), nil},
		{"late", merged, bill("k", 1, false), nil},
		{"late, but not twice", after(merged, bill("k", 1, false)), bill("k", 1, false), outOfStep},
	})
	require.EqualValues(t, 7, folded[Run](paid).Progress(id(1), 9).Cents)
}

func TestT4JobsEndOnce(t *testing.T) {
	var rows []recordable
	for _, s := range events.JobStates() {
		err := outOfStep
		if s.Final() {
			err = nil
		}
		rows = append(rows, recordable{"as " + string(s), building, settled(job, s), err},
			recordable{string(s) + " after the end", cancelledWhileBuilding, settled(job, s), err})
		if s.Final() {
			rows = append(rows, recordable{"not again after " + string(s), after(building, settled(job, s)), settled(job,
				events.JobStateSucceeded), outOfStep})
		}
	}
	checkFacts(t, append(rows, recordable{"as nothing", building, settled(job, ""), outOfStep}, recordable{"as else", building,
		settled(job, "done"), outOfStep}))
}

func TestT6WhatFollowsTheEnd(t *testing.T) {
	tidied := events.RunTidied{PullRequest: "closed", Branch: "deleted"}
	untested := theMerge
	untested.Tree, untested.Untested = tree2, true
	foreign := after(merging, untested)
	afterMerge := requested(later, events.JobAfterMerge, commit1)
	pulled := events.RunPullRequestOpened{Number: 12}
	checkFacts(t, []recordable{
		{"a pull request that was opened at that moment", cancelledWhileBuilding, pulled, nil},
		{"not another one", rejected, events.RunPullRequestOpened{Number: 13}, ErrRunOver},
		{"not once all is tidied up", after(cancelledWhileBuilding, tidied), pulled, ErrRunOver},
		{"it is tidied up", rejected, tidied, nil},
		{"once", after(rejected, tidied), tidied, outOfStep},
		{"not while it is active", awaiting, tidied, outOfStep},
		{"in one of the known ways", rejected, events.RunTidied{PullRequest: "gone", Branch: "deleted"}, outOfStep},
		{"with its branch", rejected, events.RunTidied{PullRequest: "closed"}, outOfStep},
		{"an untested merge is tested", foreign, afterMerge, nil},
		{"by a required job", foreign, events.RunJobRequested{Job: later, Name: "lint", Head: commit1, Purpose: events.JobAfterMerge,
			Attempt: 1}, ErrRunOver},
		{"on the merge commit", foreign, requested(later, events.JobAfterMerge, head1), ErrRunOver},
		{"not once all is tidied up", after(foreign, tidied), afterMerge, ErrRunOver},
		{"not a tested one", merged, afterMerge, ErrRunOver},
		{"not before the merge", ready, afterMerge, outOfStep},
		{"no other job", foreign, requested(later, events.JobRequired, head1), ErrRunOver},
	})
}

func TestT9FactsAreNotRepeated(t *testing.T) {
	plan := events.RunPlanRecorded{Summary: "Mend it."}
	again := after(coding, entered(events.StagePlan, 2))
	moved := events.RunBaseRead{Branch: "main", Commit: head2, Policy: policy1, RequiredJobs: []string{"test"}}
	checkFacts(t, []recordable{
		{"a place", inQueue, place, nil},
		{"once", after(inQueue, place), place, outOfStep},
		{"numbered from 1", inQueue, events.RunStarted{RepoSlot: 1}, outOfStep},
		{"also that of the repository", inQueue, events.RunStarted{Slot: 1}, outOfStep},
		{"only in the queue", after(inQueue, place, entered(events.StageAnalyze, 1)), place, outOfStep},
		{"the issue", inQueue, issue, nil},
		{"once", started, issue, outOfStep},
		{"but again in the analysis", inAnalysis, issue, nil},
		{"not later", coding, issue, outOfStep},
		{"a base", inQueue, onMain, nil},
		{"not the same", started, onMain, outOfStep},
		{"another", started, moved, nil},
		{"not of no commit", inQueue, events.RunBaseRead{Branch: "main", Policy: policy1}, outOfStep},
		{"not while somebody is asked", waiting, moved, outOfStep},
		{"not while it is merged", merging, moved, outOfStep},
		{"a plan", planning, plan, nil},
		{"not in another stage", coding, plan, outOfStep},
		{"not twice in an attempt", after(planning, plan), plan, outOfStep},
		{"again in the next", again, plan, nil},
		{"guardrails that found the same", clean, guarded(head1, "clean"), outOfStep},
		{"guardrails that found something else", clean, guarded(head1, "blocked"), nil},
		{"guardrails under the next policy", after(clean, otherPolicy),
			events.RunGuardrailsChecked{Head: head1, Policy: policy2, Status: "clean"}, nil},
		{"a review of each head", approves, reviewed(head1, "pass"), outOfStep},
		{"also a blocking one", after(reviewing, reviewed(head1, "blocking")), reviewed(head1, "pass"), outOfStep},
		{"the next head", after(approves, byPerson), reviewed(head2, "pass"), nil},
		{"a push", coded, pushed, outOfStep},
		{"what it waits for", inQueue, events.RunWaiting{Code: events.WaitSlot, Detail: "3 of 3 runs are active."}, nil},
		{"once", after(inQueue, events.RunWaiting{Code: events.WaitSlot}), events.RunWaiting{Code: events.WaitSlot}, outOfStep},
		{"with other words", after(inQueue, events.RunWaiting{Code: events.WaitSlot}),
			events.RunWaiting{Code: events.WaitSlot, Detail: "4 of 4 runs are active."}, nil},
		{"again after something happened", after(inQueue, events.RunWaiting{Code: events.WaitSlot}, place),
			events.RunWaiting{Code: events.WaitSlot}, nil},
		{"not after a bill", after(inQueue, events.RunWaiting{Code: events.WaitSlot}, events.RunCostRecorded{}),
			events.RunWaiting{Code: events.WaitSlot}, outOfStep},
		{"that it waits no more", after(inQueue, events.RunWaiting{Code: events.WaitSlot}), events.RunWaiting{}, nil},
		{"for something", inQueue, events.RunWaiting{Detail: "Who knows?"}, outOfStep},
		{"not once it is over", merged, events.RunWaiting{Code: events.WaitHost}, ErrRunOver},
	})
}

// A job to which the implementer was not available counts as no round, and the run remembers which it was.
func TestR6TheImplementerWasNotAvailable(t *testing.T) {
	missed := events.RunWaiting{Code: events.WaitAgent, Job: later}
	open := after(coding, requested(later, events.JobImplements, base1))
	ended := after(open, settled(later, events.JobStateSucceeded))
	checkFacts(t, []recordable{
		{"to a job", ended, missed, nil},
		{"once", after(ended, missed), missed, outOfStep},
		{"that has ended", open, missed, outOfStep},
		{"of the run", coding, missed, outOfStep},
		{"of this round", after(ended, failed(events.StageImplementing, 1), entered(events.StageImplementing, 2)), missed, outOfStep},
		{"that implements", after(building, settled(job, events.JobStateFailed)), events.RunWaiting{Code: events.WaitAgent, Job: job}, outOfStep},
	})
	p := folded[Run](after(ended, missed)).Progress(id(1), 9)
	require.True(t, p.Jobs[0].Away)
	require.Equal(t, 1, p.Round())
}

// The loop cannot get past what it has to keep, whatever it says.
func TestT14TheRunHoldsThePromises(t *testing.T) {
	approve, done := events.RunMergeApproved{Head: head1}, succeeded(events.StageImplementing, 1)
	farm := succeeded(events.StageBuildFarm, 1)
	lint := func(id events.ID, purpose events.JobPurpose, head string) events.Event {
		return events.RunJobRequested{Job: id, Name: "lint", Head: head, Purpose: purpose, Attempt: 1}
	}
	both := after(started[:len(started)-1], otherJobs)
	needsLint := func(given []events.Event) []events.Event { return after(both, given[len(started):]...) }
	tryAgain := func(state events.JobState) []events.Event {
		return after(building, settled(job, events.JobStateLost),
			events.RunJobRequested{Job: later, Name: "test", Head: head1, Purpose: events.JobRequired, Attempt: 2}, settled(later, state))
	}
	allowed := after(blocked, asked(events.ProtectedPathOnce, head1), decided(events.ProtectedPathOnce, ActionAllowOnce, "", head1))
	denied := after(blocked, asked(events.ProtectedPathOnce, head1), decided(events.ProtectedPathOnce, ActionDeny, "", head1))
	rounds := after(notBuilt, events.RunBudgetSet{Rounds: 1})
	checkFacts(t, []recordable{
		{"an approval is a person's", awaiting, approve, outOfStep},
		{"also where one is asked for", approvable, approve, outOfStep},
		{"nor is it given again", approved, approve, outOfStep},

		{"the code is done with guardrails", clean, done, nil},
		{"not before they were checked", coded, done, outOfStep},
		{"not if they block", blocked, done, outOfStep},
		{"not under another policy", after(clean, otherPolicy), done, outOfStep},
		{"not without a push", coding, done, outOfStep},
		{"not with that of the attempt before", after(notBuilt, entered(events.StageImplementing, 2)), succeeded(events.StageImplementing,
			2), outOfStep},
		{"a person allows what they found", allowed, guarded(head1, "allowed_once"), nil},
		{"then the code is done", after(allowed, guarded(head1, "allowed_once")), done, nil},
		{"not before", allowed, done, outOfStep},
		{"nobody else does", blocked, guarded(head1, "allowed_once"), outOfStep},
		{"not a person who denies it", denied, guarded(head1, "allowed_once"), outOfStep},
		{"not of another head", after(allowed, byPerson), guarded(head2, "allowed_once"), outOfStep},
		{"not under another policy", after(allowed, otherPolicy),
			events.RunGuardrailsChecked{Head: head1, Policy: policy2, Status: "allowed_once"}, outOfStep},

		{"the build is done once the job has succeeded", passed, farm, nil},
		{"not before", building, farm, outOfStep},
		{"not if it failed", after(building, settled(job, events.JobStateFailed)), farm, outOfStep},
		{"not if it was lost", after(building, settled(job, events.JobStateLost)), farm, outOfStep},
		{"it may be tried again", tryAgain(events.JobStateSucceeded), farm, nil},
		{"and fail", tryAgain(events.JobStateFailed), farm, outOfStep},
		{"all that is required by now", after(passed, otherJobs), farm, outOfStep},
		{"all that was required", needsLint(passed), farm, outOfStep},
		{"both", after(needsLint(passed), lint(later, events.JobRequired, head1), settled(later, events.JobStateSucceeded)), farm, nil},
		{"on the head itself", after(passed, byPerson), farm, outOfStep},
		{"not by a job for something else", after(building[:len(building)-1], events.RunJobRequested{Job: job, Name: "test", Head: head1},
			settled(job, events.JobStateSucceeded)), farm, outOfStep},

		{"the review is done if it passed", approves, succeeded(events.StageSelfReview, 1), nil},
		{"not without one", reviewing, succeeded(events.StageSelfReview, 1), outOfStep},
		{"not if it blocks", after(reviewing, reviewed(head1, "blocking")), succeeded(events.StageSelfReview, 1), outOfStep},
		{"not that of the head before", after(approves, byPerson), succeeded(events.StageSelfReview, 1), outOfStep},
		{"the merge is done once it is attempted", ready, succeeded(events.StageMerge, 1), outOfStep},

		{"a merge is attempted", ready, attempt1, nil},
		{"not without the turn", approved, attempt1, outOfStep},
		{"not without a candidate", laned, attempt1, outOfStep},
		{"not of another candidate", ready, events.RunMergeAttempted{Head: head1, Commit: head2}, outOfStep},
		{"not of no candidate", ready, events.RunMergeAttempted{Head: head1}, outOfStep},
		{"not with guardrails that block by now", after(ready, guarded(head1, "blocked")), attempt1, outOfStep},
		{"not under a policy that nobody checked", after(ready, otherPolicy), attempt1, outOfStep},
		{"but once it was checked", after(ready, otherPolicy, events.RunGuardrailsChecked{Head: head1, Policy: policy2, Status: "clean"}),
			attempt1, nil},
		{"not without a job that is required by now", after(ready, otherJobs), attempt1, outOfStep},
		{"but with it", after(ready, otherJobs, lint(later, events.JobRequired, head1), settled(later, events.JobStateSucceeded)), attempt1, nil},
		{"a candidate with another tree has jobs of its own", laneReady, attempt1, nil},
		{"not before", after(laned, candidate2), attempt1, outOfStep},
		{"not before they are over", after(laned, candidate2, laneJob), attempt1, outOfStep},
		{"not if they failed", after(laned, candidate2, laneJob, settled(later, events.JobStateFailed)), attempt1, outOfStep},
		{"not without one that is required by now", after(laneReady, otherJobs), attempt1, outOfStep},
		{"not after the approval was taken back", after(ready, events.RunMergeApprovalVoided{Head: head1}), attempt1, outOfStep},
		{"not with a question open", after(ready, guarded(head1, "blocked"), asked2(events.ProtectedPathOnce), guarded(head1, "clean")),
			attempt1, outOfStep},

		{"rounds are limited", rounds, entered(events.StageImplementing, 2), outOfStep},
		{"up to the limit", after(notBuilt, events.RunBudgetSet{Rounds: 2}), entered(events.StageImplementing, 2), nil},
		{"unless there is none", after(notBuilt, events.RunBudgetSet{}), entered(events.StageImplementing, 2), nil},
		{"other stages are not", rounds, entered(events.StageBuildFarm, 2), nil},
	})
	check(t, []spec[Run]{{name: "a person gets another round", given: after(approvable, events.RunBudgetSet{Rounds: 1}),
		when: func(r *Run) ([]events.Event, error) {
			return r.Answer(Answer{Decision: question, Action: ActionRequestChanges, Note: "Again."})
		}, then: []events.Event{
			decided(events.MergeApproval, ActionRequestChanges, "Again.", head1), events.RunHumanIntervened{Repo: repo.ID,
				What: events.InterventionChanges},
			events.RunStageFailed{Stage: events.StageMerge, Attempt: 1, Reason: "Changes were asked for: Again."},
			entered(events.StageImplementing, 2),
		}}})
}

// asked2 is asked with another id.
func asked2(about events.DecisionKind) events.Event {
	return events.DecisionRaised{Decision: later, About: about, Question: "May it?", Head: head1}
}

func TestT15ARunHasOneBranchAndOnePullRequest(t *testing.T) {
	checkFacts(t, []recordable{
		{"a branch", coding, events.RunBranchCreated{Branch: "run/7"}, nil},
		{"once", coded, events.RunBranchCreated{Branch: "run/7"}, outOfStep},
		{"not another", coded, events.RunBranchCreated{Branch: "run/8"}, outOfStep},
		{"with a name", coding, events.RunBranchCreated{}, outOfStep},
		{"a pull request", approves, events.RunPullRequestOpened{Number: 12}, nil},
		{"once", awaiting, events.RunPullRequestOpened{Number: 12}, outOfStep},
		{"not another", awaiting, events.RunPullRequestOpened{Number: 13}, outOfStep},
		{"numbered from 1", approves, events.RunPullRequestOpened{}, outOfStep},
	})
}

// Where two people are wanted, whoever queued the issue does not approve its merge.
func TestT16TheApproverIsNotTheQueuer(t *testing.T) {
	r, bot, old := &Run{}, &Run{}, folded[Run](inQueue)
	r.Apply(queued, events.Actor{Type: events.ByUser, ID: ann})
	bot.Apply(queued, events.Actor{Type: events.ByService, ID: ann})
	require.ErrorIs(t, r.AllowApprover(ann, true), ErrApproverIsQueuer)
	require.NoError(t, r.AllowApprover(leo, true))
	require.NoError(t, r.AllowApprover(ann, false))
	require.NoError(t, bot.AllowApprover(ann, true))
	require.NoError(t, old.AllowApprover(events.ID{}, true))
}

func TestTheLane(t *testing.T) {
	elsewhere := events.RunMergeCandidate{Head: head2, Base: base1, Commit: commit1, Tree: tree1}
	checkFacts(t, []recordable{
		{"a turn", approved, turn, nil},
		{"once", laned, turn, outOfStep},
		{"with an approval", awaiting, turn, outOfStep},
		{"in the stage Merge", approvedCoding, turn, outOfStep},
		{"of the branch", approved, events.RunLaneEntered{Branch: "next"}, outOfStep},
		{"a candidate", laned, candidate, nil},
		{"not the same", ready, candidate, outOfStep},
		{"another one", ready, candidate2, nil},
		{"with the turn", approved, candidate, outOfStep},
		{"of the head", laned, elsewhere, outOfStep},
		{"with a tree", laned, events.RunMergeCandidate{Head: head1, Base: base1, Commit: commit1}, outOfStep},
		{"not while it is merged", merging, candidate2, outOfStep},
	})
	for name, given := range map[string][]events.Event{
		"another stage": after(ready, entered(events.StageImplementing, 2)), "no approval": after(ready,
			events.RunMergeApprovalVoided{Head: head1}),
		"the end": after(ready, events.RunCancelled{}), "a merge": merged,
	} {
		require.False(t, folded[Run](given).Progress(id(1), 1).Lane, name)
	}
	issueKey, lane := events.IssueKey(repo.ID, 7), events.LaneKey(repo.ID, "main")
	places := []string{events.RunSlotKey(2), events.RepoSlotKey(repo.ID, 1)}
	require.Empty(t, new(Run).Keys())
	require.Equal(t, []string{issueKey}, folded[Run](inQueue).Keys())
	require.Equal(t, append([]string{issueKey}, places...), folded[Run](approved).Keys())
	require.Equal(t, append([]string{issueKey}, append(places, lane)...), folded[Run](approved).With(turn).Keys())
	require.Empty(t, folded[Run](merged).Keys())
}

func TestJobsAreRequestedForAPurpose(t *testing.T) {
	implement := func(id events.ID) events.Event {
		return events.RunJobRequested{Job: id, Name: "implement", Head: base1, Purpose: events.JobImplements, Attempt: 1}
	}
	spent := after(coding, events.RunBudgetSet{Cents: 5}, events.RunCostRecorded{Cents: 5, Key: "k"})
	checkFacts(t, []recordable{
		{"to implement", coding, implement(job), nil},
		{"not in another stage", building, implement(later), outOfStep},
		{"not once that is over", after(clean, succeeded(events.StageImplementing, 1)), implement(job), outOfStep},
		{"not without money", spent, implement(job), outOfStep},
		{"nor if nobody knows what is left of it", after(coding, events.RunBudgetSet{Cents: 5},
			events.RunCostRecorded{Key: "k", Unknown: true}), implement(job), outOfStep},
		{"as long as there is some", after(coding, events.RunBudgetSet{Cents: 6}, events.RunCostRecorded{Cents: 5, Key: "k"}),
			implement(job), nil},
		{"one at a time", after(coding, implement(job)), implement(later), outOfStep},
		{"then another", after(coding, implement(job), settled(job, events.JobStateLost)), implement(later), nil},
		{"a required one", clean, requested(job, events.JobRequired, head1), nil},
		{"also without money", after(spent, pushed), requested(job, events.JobRequired, head1), nil},
		{"not of another commit", clean, requested(job, events.JobRequired, head2), outOfStep},
		{"not what is not required", clean, events.RunJobRequested{Job: job, Name: "lint", Head: head1, Purpose: events.JobRequired,
			Attempt: 1}, outOfStep},
		{"one of the candidate", after(laned, candidate2), laneJob, nil},
		{"not of the head", after(laned, candidate2), requested(later, events.JobLane, head1), outOfStep},
		{"not without one", laned, laneJob, outOfStep},
		{"not for nothing", clean, events.RunJobRequested{Job: job, Name: "test", Head: head1, Attempt: 1}, outOfStep},
		{"not for something else", clean, requested(job, "lunch", head1), outOfStep},
		{"attempts are counted from 1", clean, events.RunJobRequested{Job: job, Name: "test", Head: head1, Purpose: events.JobRequired},
			outOfStep},
		{"a job has a name", coding, events.RunJobRequested{Job: job, Head: base1, Purpose: events.JobImplements, Attempt: 1}, outOfStep},
		{"and an id", clean, requested(events.ID{}, events.JobRequired, head1), outOfStep},
	})
}

func TestFindings(t *testing.T) {
	answer := func(given []events.Event, a Answer) []events.Event {
		a.Decision = question
		list, err := folded[Run](given).Answer(a)
		require.NoError(t, err)
		return after(given, list...)
	}
	again := entered(events.StageImplementing, 2)
	findings := func(given []events.Event) []string { return folded[Run](given).Progress(id(1), 1).Findings }
	require.Equal(t, []string{"It did not work."}, findings(after(notBuilt, again)))
	require.Equal(t, []string{"It did not work."}, findings(after(blocking, again)))
	require.Empty(t, findings(notBuilt), "it has led to no other round")
	require.Empty(t, findings(after(notBuilt, entered(events.StageBuildFarm, 2))))
	require.Equal(t, []string{"Add a test."}, findings(answer(approvable, Answer{Action: ActionRequestChanges, Note: "Add a test."})))
	require.Equal(t, []string{pathDenied}, findings(answer(waiting, Answer{Action: ActionDeny})))
	require.Equal(t, []string{"Never."}, findings(answer(waiting, Answer{Action: ActionDeny, Note: "Never."})))

	facts := func(given []events.Event) (bool, []string) {
		p := folded[Run](given).Progress(id(1), 1)
		return p.Corrected, p.Facts
	}
	asks := after(planning, asked(events.FactReview, ""))
	corrected, list := facts(asks)
	require.False(t, corrected)
	require.Equal(t, []string{"A test can show it."}, list)
	corrected, list = facts(answer(asks, Answer{Action: ActionCorrect, Note: "It is the export."}))
	require.True(t, corrected)
	require.Equal(t, []string{"A test can show it.", "It is the export."}, list)
	corrected, _ = facts(answer(asks, Answer{Action: ActionConfirm}))
	require.True(t, corrected)
}

// What is known of a run is the caller's: changing it does not change the run.
func TestProgressIsACopy(t *testing.T) {
	given := after(merging, events.RunWaiting{Code: events.WaitHost})
	given = after(given[:3:3], append([]events.Event{
		events.RunIssueRead{Labels: []string{"bug"}},
	}, given[3:]...)...)
	r := folded[Run](given)
	p := r.Progress(id(9), 17)
	require.Equal(t, []any{id(9), 17, repo, 7, queued.IssueTitle, ann}, []any{p.Run, p.Version, p.Repo, p.Issue, p.Title, p.Queuer.ID})
	require.Equal(t, 1, p.Round())
	require.False(t, p.Over())

	p.Attempts[events.StagePlan], p.Jobs[0].State, p.IssueRead.Labels[0], p.Base.RequiredJobs[0] = 7, "", "x", "x"
	p.Facts[0], p.Plan.Summary, p.Guardrails.Status, p.Review.Verdict, p.Candidate.Commit, p.Wait.Code = "x", "x", "x", "x", "x", "x"
	p.Started.Slot = 99
	require.Equal(t, folded[Run](given), r)
}

// Streams from before there were places, bases and candidates are known as far as they go. They do not merge
// as they are, and can be ended.
func TestStoredRunsOfEarlierBuilds(t *testing.T) {
	old := []events.Event{
		queued, entered(events.StageAnalyze, 1), events.RunFactsRecorded{Facts: []string{"A fact."}}, events.RunCostRecorded{Cents: 3},
		events.RunCostRecorded{Cents: 3}, succeeded(events.StageAnalyze, 1), entered(events.StagePlan, 1),
		events.RunPlanRecorded{Summary: "Mend it."},
		events.RunBudgetSet{Cents: 500, Rounds: 3}, succeeded(events.StagePlan, 1), entered(events.StageImplementing, 1),
		events.RunBranchCreated{Branch: "run/7"}, events.RunCommitsPushed{Head: head1, Base: base1, By: events.PushedByLoop},
		events.RunGuardrailsChecked{Head: head1, Policy: policy1, Status: "blocked"},
		asked(events.ProtectedPathOnce, head1), decided(events.ProtectedPathOnce, ActionAllowOnce, "", head1),
		events.RunHumanIntervened{What: events.InterventionAnswer}, succeeded(events.StageImplementing, 1), entered(events.StageBuildFarm, 1),
		events.RunJobRequested{Job: job, Name: "test", Head: head1}, settled(job, events.JobStateFailed), settled(job, events.JobStateSucceeded),
		succeeded(events.StageBuildFarm, 1), entered(events.StageSelfReview, 1), reviewed(head1, "pass"), reviewed(head1, "pass"),
		succeeded(events.StageSelfReview, 1), entered(events.StageMerge, 1), events.RunPullRequestOpened{Number: 12},
		asked2(events.MergeApproval), events.DecisionAnswered{Decision: later, About: events.MergeApproval, Action: ActionApproveAndMerge,
			Head: head1},
		events.RunMergeApproved{Head: head1}, events.RunMergeAttempted{Head: head1}, succeeded(events.StageMerge, 1),
		events.RunMerged{Repo: repo.ID, Head: head1, MergeCommit: commit1},
	}
	for n := 1; n <= len(old); n++ {
		given := old[:n:n]
		r := folded[Run](given)
		p := r.Progress(id(1), n)
		require.Equal(t, n == len(old), p.Over(), "%d events", n)
		for _, fact := range []events.Event{attempt1, theMerge, events.RunMergeAttempted{Head: head1}, turn, candidate} {
			_, err := r.Record(fact)
			require.Error(t, err, "%d events, %T", n, fact)
		}
		for _, end := range []events.Event{events.RunRejected{}, events.RunFailed{}, events.RunCancelled{}} {
			_, err := r.Record(end)
			require.Equal(t, p.Over(), err != nil, "%d events, %T", n, end)
		}
		list, err := r.Cancel("No longer needed.")
		require.Equal(t, p.Over(), err != nil, "%d events", n)
		if !p.Over() && p.Status == events.RunStatusMerging {
			_, err := r.With(list...).Record(postpone, events.RunCancelled{})
			require.NoError(t, err, "%d events", n)
		}
		if p.Decision != nil {
			for _, action := range Actions(p.Decision.Kind) {
				_, err := r.Answer(Answer{Decision: p.Decision.ID, Action: action, Note: "Well.", ExpectedHead: p.Decision.Head})
				require.NoError(t, err, fmt.Sprint(n, action))
			}
		}
	}
	p := folded[Run](old[:len(old)-2]).Progress(id(1), 1)
	require.Equal(t, []any{events.RunStatusMerging, events.StageMerge, head1, later, 12, int64(6), "run/7"},
		[]any{p.Status, p.Stage, p.Approved, p.ApprovedBy, p.PullRequest, p.Cents, p.Branch})
	require.True(t, slices.ContainsFunc(p.Jobs, func(j RunJob) bool { return j.State == events.JobStateSucceeded }))
}
