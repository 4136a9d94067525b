package aggregates

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestFactsAreRecordedOnlyWhereTheRunCanHaveThem(t *testing.T) {
	facts, plan, branch := events.RunFactsRecorded{}, events.RunPlanRecorded{}, events.RunBranchCreated{Branch: "run/7"}
	otherJob := settled(id(99), events.JobStateSucceeded)
	void, voidElse := events.RunMergeApprovalVoided{Head: head1}, events.RunMergeApprovalVoided{Head: head2}
	attempt := events.RunMergeAttempted{Head: head1, Commit: commit1}
	attemptElse := events.RunMergeAttempted{Head: head2, Commit: commit1}
	mergeElse := events.RunMerged{Repo: repo.ID, Head: head2, MergeCommit: commit1, Tree: tree1}
	budget := events.RunBudgetSet{Cents: 500, ComputeMS: 1_800_000, Rounds: 3}
	pulled, helped, cost := events.RunPullRequestOpened{Number: 12}, events.RunHumanIntervened{Repo: repo.ID, What: "push"},
		events.RunCostRecorded{Repo: repo.ID, Cents: 4, Key: "model/1"}
	reject, fail, cancel := events.RunRejected{Repo: repo.ID}, events.RunFailed{Repo: repo.ID, Stage: events.StageAnalyze},
		events.RunCancelled{Repo: repo.ID}
	no := error(ErrRunOutOfStep)

	cases := []struct {
		name  string
		given []events.Event
		fact  events.Event
		err   error
	}{
		// The loop advances one stage at a time, after the current one has succeeded.
		{"a place begins the analysis", started, entered(events.StageAnalyze, 1), nil},
		{"a stage that succeeded leads to the next", built, entered(events.StageSelfReview, 1), nil},
		{"a stage that still works does not", building, entered(events.StageSelfReview, 1), no},
		{"a stage that failed does not", notBuilt, entered(events.StageSelfReview, 1), no},
		{"a review that failed does not lead to the merge", blocking, entered(events.StageMerge, 1), no},
		{"not without a place", inQueue, entered(events.StageAnalyze, 1), no},
		{"no stage is passed over", started, entered(events.StagePlan, 1), no},
		{"nothing leads back into the queue", coded, entered(events.StageQueued, 1), no},
		{"there is no such stage", started, entered("done", 1), no},

		// It may go back, and each entry counts as an attempt.
		{"a failed build leads back to the code", notBuilt, entered(events.StageImplementing, 2), nil},
		{"a blocking review leads back to the code", blocking, entered(events.StageImplementing, 2), nil},
		{"a moved base leads back to the build", awaiting, entered(events.StageBuildFarm, 2), nil},
		{"a stage may be tried again", notBuilt, entered(events.StageBuildFarm, 2), nil},
		{"a stage may be begun again", building, entered(events.StageBuildFarm, 2), nil},
		{"attempts are counted: not the same twice", notBuilt, entered(events.StageImplementing, 1), no},
		{"attempts are counted: none is left out", notBuilt, entered(events.StageImplementing, 3), no},
		{"attempts are counted: from 1", started, entered(events.StageAnalyze, 0), no},

		// A stage ends once.
		{"a stage succeeds", passed, succeeded(events.StageBuildFarm, 1), nil},
		{"a stage fails", building, failed(events.StageBuildFarm, 1), nil},
		{"not twice", built, succeeded(events.StageBuildFarm, 1), no},
		{"not after it failed", notBuilt, succeeded(events.StageBuildFarm, 1), no},
		{"nor fails after it succeeded", built, failed(events.StageBuildFarm, 1), no},
		{"another stage cannot succeed", building, succeeded(events.StageImplementing, 1), no},
		{"another stage cannot fail", building, failed(events.StagePlan, 1), no},
		{"another attempt cannot succeed", building, succeeded(events.StageBuildFarm, 2), no},
		{"another attempt cannot fail", building, failed(events.StageBuildFarm, 0), no},
		{"what is no stage cannot succeed", building, succeeded("done", 1), no},
		{"the queue cannot succeed by itself", inQueue, succeeded(events.StageQueued, 0), no},

		// Results of stages.
		{"facts", inAnalysis, facts, nil},
		{"a plan", after(inAnalysis, succeeded(events.StageAnalyze, 1), entered(events.StagePlan, 1)), plan, nil},
		{"a budget", coding, budget, nil},
		{"a budget without limits", coding, events.RunBudgetSet{}, nil},
		{"a budget below zero is none", coding, events.RunBudgetSet{Cents: -1}, no},
		{"nor is one of too many rounds", coding, events.RunBudgetSet{Rounds: maxInt32 + 1}, no},
		{"nor for a run that is over", merged, budget, ErrRunOver},
		{"a branch", coding, branch, nil},
		{"commits", coding, pushed, nil},
		{"commits of nobody", coding, events.RunCommitsPushed{Head: head1}, no},
		{"not more files than are shown", coding, events.RunCommitsPushed{Head: head1, By: events.PushedByLoop,
			Files: make([]events.FileChange, events.MaxPushedFiles+1)}, no},
		{"guardrails on the head", coded, guarded(head1, "clean"), nil},
		{"not on another commit", coded, guarded(head2, "clean"), no},
		{"not before there is a commit", coding, guarded(head1, "clean"), no},
		{"not on no commit", coding, guarded("", "clean"), no},
		{"not under another policy", coded, events.RunGuardrailsChecked{Head: head1, Policy: policy2, Status: "clean"}, no},
		{"not with another outcome", coded, guarded(head1, "fine"), no},
		{"a job", after(clean, succeeded(events.StageImplementing, 1), entered(events.StageBuildFarm, 1)),
			requested(job, events.JobRequired, head1), nil},
		{"a job's end", building, settled(job, events.JobStateSucceeded), nil},
		{"not that of a job nobody asked for", building, otherJob, no},
		{"a review of the head", reviewing, reviewed(head1, "pass"), nil},
		{"not of another commit", reviewing, reviewed(head2, "pass"), no},
		{"not of no commit", coding, reviewed("", "pass"), no},
		{"not another verdict", reviewing, reviewed(head1, "perhaps"), no},
		{"a pull request", approves, pulled, nil},

		// Decisions of people.
		{"help", coded, helped, nil},
		{"help while it waits", waiting, helped, nil},

		// The merge: a person approves exactly the commit that is merged.
		{"an approval that no longer counts", approved, void, nil},
		{"not one of another commit", approved, voidElse, no},
		{"not where there is none", awaiting, void, no},
		{"not where there is none, of no commit", awaiting, events.RunMergeApprovalVoided{}, no},
		{"not twice", mergingAnyway, void, no},
		{"an attempt to merge what was approved", ready, attempt, nil},
		{"not without an approval", awaiting, attempt, no},
		{"not without an approval, of no commit", awaiting, events.RunMergeAttempted{}, no},
		{"not of another commit", ready, attemptElse, no},
		{"not once the branch moved", approvedMoved, attempt, no},
		{"nor of where it moved to", approvedMoved, attemptElse, no},
		{"not without the approval that was taken back", mergingAnyway, attempt, no},
		{"not in another stage", approvedCoding, attempt, no},
		{"a merge", merging, theMerge, nil},
		{"not of another commit", merging, mergeElse, no},
		{"not before it is attempted", ready, theMerge, no},
		{"not after the approval was taken back", mergingAnyway, theMerge, no},
		{"not into no commit", merging, events.RunMerged{Head: head1, Tree: tree1}, no},

		// Ends of a run.
		{"a person turns it down", awaiting, reject, nil},
		{"it gives up", notBuilt, fail, nil},
		{"somebody stops it", inQueue, cancel, nil},

		// Facts that may come late.
		{"costs come late", merged, cost, nil},
		{"jobs end late", cancelledWhileBuilding, settled(job, events.JobStateCancelled), nil},
		{"but only those that were asked for", merged, otherJob, no},

		// Events that are no facts of a queued run.
		{"it is queued once", inAnalysis, queued, no},
		{"a fact of something else", inAnalysis, events.MemberLeft{}, no},
		{"a fact before it is queued", nil, facts, ErrNoRun},
		{"a cost before it is queued", nil, cost, ErrNoRun},
		{"the queue is no fact", nil, queued, ErrNoRun},
	}
	var specs []spec[Run]
	for _, c := range cases {
		s := spec[Run]{name: c.name, given: c.given, when: record(c.fact), err: c.err}
		if c.err == nil {
			s.then = []events.Event{c.fact}
		}
		specs = append(specs, s)
	}
	check(t, specs)
}

var cancelledWhileBuilding = after(building, events.RunCancelled{})

func record(facts ...events.Event) func(*Run) ([]events.Event, error) {
	return func(r *Run) ([]events.Event, error) { return r.Record(facts...) }
}

// After the end of a run every kind of fact is refused, except late costs.
func TestNothingFollowsTheEnd(t *testing.T) {
	late := map[string]bool{"run.cost_recorded": true, "run.job_settled": true, "run.tidied": true}
	var specs []spec[Run]
	for _, end := range [][]events.Event{merged, rejected, givenUp, cancelled} {
		for _, fact := range everyFact(t) {
			if !late[fact.Kind()] {
				specs = append(specs, spec[Run]{name: end[len(end)-1].Kind() + " then " + fact.Kind(), given: end, when: record(fact), err: ErrRunOver})
			}
		}
	}
	check(t, specs)
}

// everyFact returns one event of each kind of a run.
func everyFact(t *testing.T) (list []events.Event) {
	for _, kind := range events.Kinds() {
		e, err := events.Decode(kind, events.Schema(kind), []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := e.(interface{ IsRun() }); ok {
			list = append(list, e)
		}
	}
	return list
}

func TestRecordTakesAllOrNothing(t *testing.T) {
	good := []events.Event{succeeded(events.StageBuildFarm, 1), entered(events.StageSelfReview, 1)}
	asks, ends := requested(job, events.JobRequired, head1), settled(job, events.JobStateSucceeded)
	check(t, []spec[Run]{
		{name: "each fact may follow from the one before it", given: passed, when: record(good...), then: good},
		{name: "one that does not refuses them all", given: passed, when: record(after(good, entered(events.StageMerge, 1))...),
			err: ErrRunOutOfStep},
		{name: "wherever it stands", given: passed, when: record(entered(events.StageMerge, 1), good[0]), err: ErrRunOutOfStep},
		{name: "nothing follows the end among them", given: building, when: record(events.RunCancelled{}, good[0]), err: ErrRunOver},
		{name: "nothing is nothing", given: building, when: record()},
		{name: "a job may be asked for and end at once", given: clean, when: record(asks, ends), then: []events.Event{asks, ends}},
		{name: "a job is requested once", given: after(clean, asks), when: record(asks), err: ErrRunOutOfStep},
		{name: "but not end first", given: clean, when: record(ends, asks), err: ErrRunOutOfStep},
	})
}

// A fact gets the run's own repository, whatever its reporter says.
func TestRepositoryIsThatOfTheRun(t *testing.T) {
	elsewhere := id(99)
	check(t, []spec[Run]{{name: "of all that says so", given: merging, when: record(
		events.RunHumanIntervened{Repo: elsewhere}, events.RunCostRecorded{Repo: elsewhere, Key: "k"},
		events.RunMerged{Repo: elsewhere, Head: head1, MergeCommit: commit1, Tree: tree1},
	), then: []events.Event{
		events.RunHumanIntervened{Repo: repo.ID}, events.RunCostRecorded{Repo: repo.ID, Key: "k"}, theMerge,
	}}})
	for _, end := range []events.Event{events.RunRejected{Repo: elsewhere}, events.RunFailed{Repo: elsewhere},
		events.RunCancelled{Repo: elsewhere}} {
		list, err := folded[Run](coded).Record(end)
		require.NoError(t, err)
		require.Equal(t, repo.ID, reflect.ValueOf(list[0]).FieldByName("Repo").Interface())
	}
}

// An issue becomes a merged pull request, with detours.
func TestRunFromIssueToMerge(t *testing.T) {
	second, third := id(72), id(73)
	moved := events.RunMergeCandidate{Head: head2, Base: head1, Commit: commit1, Tree: tree1}
	toApproval := after(blocking[1:],
		entered(events.StageImplementing, 2), events.RunCommitsPushed{Head: head2, Base: head1, By: events.PushedByLoop, Tree: tree2},
		guarded(head2, "blocked"), events.RunHumanIntervened{Repo: repo.ID, What: "push"}, guarded(head2, "clean"),
		succeeded(events.StageImplementing, 2),
		entered(events.StageBuildFarm, 2), requested(second, events.JobRequired, head2), settled(second, events.JobStateSucceeded),
		succeeded(events.StageBuildFarm, 2),
		entered(events.StageSelfReview, 2), reviewed(head2, "pass"), succeeded(events.StageSelfReview, 2),
		entered(events.StageMerge, 1), events.RunPullRequestOpened{Number: 12}, asked(events.MergeApproval, head2),
	)
	approval := after(nil, decided(events.MergeApproval, ActionApproveAndMerge, "", head2), events.RunMergeApproved{Head: head2})
	toMerge := after(nil, turn, moved, requested(third, events.JobLane, commit1), settled(third, events.JobStateSucceeded),
		events.RunMergeAttempted{Head: head2, Commit: commit1}, events.RunMergePostponed{Head: head2, Reason: "base_moved"},
		moved, events.RunMergeAttempted{Head: head2, Commit: commit1}, succeeded(events.StageMerge, 1),
		events.RunMerged{Repo: repo.ID, Head: head2, MergeCommit: commit1, Tree: tree1},
	)
	atApproval := after(inQueue, toApproval...)
	check(t, []spec[Run]{
		{name: "to the approval", given: inQueue, when: record(toApproval...), then: toApproval},
		{name: "approved", given: atApproval, when: func(r *Run) ([]events.Event, error) {
			return r.Answer(Answer{Decision: question, Action: ActionApproveAndMerge, ExpectedHead: head2})
		}, then: approval},
		{name: "to the merge", given: after(atApproval, approval...), when: record(toMerge...), then: toMerge},
	})
}
