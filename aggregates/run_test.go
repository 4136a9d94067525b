package aggregates

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

const (
	head1 = "9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"
	head2 = "4be7a90c15d2f8634a1b9c0e57d3862f0e94ab71"

	tree1   = "1c0f5d3b7a9e2468013579bdf02468ace13579bd"
	tree2   = "2d1e6c4a8b0f3579124680acef13579bdf02468a"
	base1   = "b0a1c2d3e4f5968778695a4b3c2d1e0f00112233"
	commit1 = "c0ffee00112233445566778899aabbccddeeff01"
	policy1 = "aa11bb22"
	policy2 = "cc33dd44"
)

var (
	repo = events.Repo{ID: id(70), Name: "acme/web"}
	job  = id(71)

	queued = events.RunQueued{Repo: repo, IssueNumber: 7, IssueTitle: "Fix date parsing"}
	place  = events.RunStarted{Repo: repo.ID, Slot: 2, RepoSlot: 1}
	issue  = events.RunIssueRead{Title: "Fix date parsing", Open: true}
	onMain = events.RunBaseRead{Branch: "main", Commit: base1, Policy: policy1, RequiredJobs: []string{"test"}}
	pushed = events.RunCommitsPushed{Head: head1, Base: base1, By: events.PushedByLoop, Tree: tree1}
	turn   = events.RunLaneEntered{Repo: repo.ID, Branch: "main"}

	candidate = events.RunMergeCandidate{Head: head1, Base: base1, Commit: commit1, Tree: tree1}
)

func entered(s events.Stage, attempt int) events.Event {
	return events.RunStageEntered{Stage: s, Attempt: attempt}
}

func succeeded(s events.Stage, attempt int) events.Event {
	return events.RunStageSucceeded{Stage: s, Attempt: attempt}
}

func failed(s events.Stage, attempt int) events.Event {
	return events.RunStageFailed{Stage: s, Attempt: attempt, Reason: "It did not work."}
}

func guarded(head, status string) events.Event {
	return events.RunGuardrailsChecked{Head: head, Policy: policy1, Status: status}
}

func requested(id events.ID, purpose events.JobPurpose, head string) events.Event {
	return events.RunJobRequested{Job: id, Name: "test", Head: head, Purpose: purpose, Attempt: 1}
}

func settled(id events.ID, state events.JobState) events.Event {
	return events.RunJobSettled{Job: id, Status: string(state)}
}

func reviewed(head, verdict string) events.Event {
	return events.RunReviewed{Head: head, Verdict: verdict}
}

// The states of a run.
var (
	inQueue    = []events.Event{queued}
	started    = after(inQueue, place, issue, onMain)
	inAnalysis = after(started, entered(events.StageAnalyze, 1))
	planning   = after(inAnalysis, events.RunFactsRecorded{Facts: []string{"A test can show it."}}, succeeded(events.StageAnalyze, 1),
		entered(events.StagePlan, 1))
	coding = after(planning, events.RunPlanRecorded{Summary: "Mend it."}, succeeded(events.StagePlan, 1),
		entered(events.StageImplementing, 1))
	coded    = after(coding, events.RunBranchCreated{Branch: "run/7"}, pushed)
	clean    = after(coded, guarded(head1, "clean"))
	blocked  = after(coded, guarded(head1, "blocked"))
	waiting  = after(blocked, asked(events.ProtectedPathOnce, head1))
	building = after(clean, succeeded(events.StageImplementing, 1), entered(events.StageBuildFarm, 1),
		requested(job, events.JobRequired, head1))
	passed    = after(building, settled(job, events.JobStateSucceeded))
	built     = after(passed, succeeded(events.StageBuildFarm, 1))
	notBuilt  = after(building, settled(job, events.JobStateFailed), failed(events.StageBuildFarm, 1))
	reviewing = after(built, entered(events.StageSelfReview, 1))
	approves  = after(reviewing, reviewed(head1, "pass"))
	blocking  = after(reviewing, reviewed(head1, "blocking"), failed(events.StageSelfReview, 1))
	awaiting  = after(approves, succeeded(events.StageSelfReview, 1), entered(events.StageMerge, 1),
		events.RunPullRequestOpened{Number: 12})
	approved = after(awaiting, asked(events.MergeApproval, head1), decided(events.MergeApproval, ActionApproveAndMerge, "", head1),
		events.RunMergeApproved{Head: head1})
	approvedMoved = after(approved, events.RunCommitsPushed{Head: head2, Base: base1, By: events.PushedByPerson},
		events.RunMergeApprovalVoided{Head: head1, Reason: "new_commits"})
	laned          = after(approved, turn)
	ready          = after(laned, candidate)
	merging        = after(ready, events.RunMergeAttempted{Head: head1, Commit: commit1})
	mergingAnyway  = after(merging, events.RunMergeApprovalVoided{Head: head1, Reason: "The base moved."})
	stopping       = after(merging, events.RunStopRequested{Reason: "No longer needed."})
	postponed      = after(merging, events.RunMergePostponed{Head: head1, Reason: "base_moved"})
	approvedCoding = after(approved, entered(events.StageImplementing, 2))
	merged         = after(merging, succeeded(events.StageMerge, 1), theMerge)
	rejected       = after(awaiting, events.RunRejected{Repo: repo.ID, Reason: "Not this way."})
	givenUp        = after(notBuilt, events.RunFailed{Repo: repo.ID, Stage: events.StageBuildFarm, Reason: "Three attempts."})
	cancelled      = after(inQueue, events.RunCancelled{Repo: repo.ID, Reason: "No longer needed."})
)

var theMerge = events.RunMerged{Repo: repo.ID, Head: head1, MergeCommit: commit1, Tree: tree1}

func TestQueue(t *testing.T) {
	queue := func(e events.RunQueued) func(*Run) ([]events.Event, error) {
		return func(r *Run) ([]events.Event, error) { return r.Queue(e) }
	}
	check(t, []spec[Run]{
		{name: "an issue is queued", when: queue(queued), then: inQueue},
		{name: "not twice", given: inQueue, when: queue(queued), err: ErrQueued},
		{name: "a run that is over is not begun again", given: cancelled, when: queue(queued), err: ErrQueued},
		{name: "a repository is needed", when: queue(events.RunQueued{IssueNumber: 7}), err: fault.Field("repoId", "must name a repository")},
		{name: "and its name", when: queue(events.RunQueued{Repo: events.Repo{ID: repo.ID}, IssueNumber: 7}),
			err: fault.Field("repoId", "must name a repository")},
		{name: "issues are numbered from 1", when: queue(events.RunQueued{Repo: repo}), err: fault.Field("issueNumber", "must be 1 or more")},
	})
}

func TestIssue(t *testing.T) {
	got, number := folded[Run](merging).Issue()
	require.Equal(t, repo, got)
	require.Equal(t, 7, number)
}

func TestOver(t *testing.T) {
	for _, given := range [][]events.Event{nil, inQueue, inAnalysis, planning, coding, waiting, building, notBuilt, reviewing, awaiting,
		approved, merging} {
		require.False(t, folded[Run](given).Over())
	}
	for _, given := range [][]events.Event{merged, rejected, givenUp, cancelled} {
		require.True(t, folded[Run](given).Over())
	}
}

func TestStatus(t *testing.T) {
	for status, given := range map[events.RunStatus][]events.Event{
		"queued": inQueue, "analyzing": inAnalysis, "planning": planning, "coding": coded, "needs_input": waiting,
		"building": notBuilt, "reviewing": reviewing, "awaiting_approval": approved, "merging": merging,
		"merged": merged, "rejected": rejected, "failed": givenUp, "cancelled": cancelled,
	} {
		require.Equal(t, status, folded[Run](given).p.Status)
	}
	answered := decided(events.ProtectedPathOnce, ActionAllowOnce, "", head1)
	voided := events.RunMergeApprovalVoided{Head: head1, Reason: "The base moved."}
	for name, c := range map[string]struct {
		given  []events.Event
		status events.RunStatus
	}{
		"an answer leads back into the stage":              {after(waiting, answered), "coding"},
		"without its approval a merge waits for another":   {mergingAnyway, "awaiting_approval"},
		"an approval that goes in another stage moves not": {after(approvedCoding, voided), "coding"},
	} {
		require.Equal(t, c.status, folded[Run](c.given).p.Status, name)
	}
}

// A newer build may have put the run in a stage that this build does not know. This build
// leaves it there: it applies events, and can stop the run.
func TestStageOfNewerBuild(t *testing.T) {
	const scan = events.Stage("security_scan")
	scanning := after(blocked, succeeded(events.StageImplementing, 1), entered(scan, 1))
	scanned := after(scanning, succeeded(scan, 1))
	asking := after(scanning, asked(events.ProtectedPathOnce, head1))
	for _, given := range [][]events.Event{
		scanning, scanned, after(scanning, failed(scan, 1)), after(asking, decided(events.ProtectedPathOnce, ActionAllowOnce, "", head1)),
	} {
		require.Equal(t, events.RunStatusUnknown, folded[Run](given).p.Status)
		require.False(t, folded[Run](given).Over())
	}
	require.Equal(t, events.RunStatusBuilding, folded[Run](after(scanned, entered(events.StageBuildFarm, 1))).p.Status,
		"and the newer one leads it on")
	record := func(e events.Event) func(*Run) ([]events.Event, error) {
		return func(r *Run) ([]events.Event, error) { return r.Record(e) }
	}
	raised := asked(events.FactReview, "")
	cancel := events.RunCancelled{Repo: repo.ID, Reason: "No longer needed."}
	check(t, []spec[Run]{
		{name: "no stage follows it here", given: scanned, when: record(entered(events.StageBuildFarm, 1)), err: ErrRunOutOfStep},
		{name: "nor does one that came before", given: scanned, when: record(entered(events.StageAnalyze, 2)), err: ErrRunOutOfStep},
		{name: "nothing is asked there", given: scanning, when: record(raised), err: ErrRunOutOfStep},
		{name: "changes cannot be led back to the code", given: asking, when: func(r *Run) ([]events.Event, error) {
			return r.Answer(Answer{Decision: question, Action: ActionDeny})
		}, err: ErrRunOutOfStep},
		{name: "a person stops the run", given: scanning, when: func(r *Run) ([]events.Event, error) { return r.Cancel(cancel.Reason) },
			then: []events.Event{cancel}},
	})
}

// Callers may name any stream: the events of another kind of stream are ignored.
func TestEventsOfOtherStreamsAreIgnored(t *testing.T) {
	for _, kind := range events.Kinds() {
		e, err := events.Decode(kind, events.Schema(kind), []byte(`{}`))
		require.NoError(t, err)
		switch e.(type) {
		case events.RunQueued, events.WorkspaceCreated, events.UserRegistered:
			continue
		}
		list := []events.Event{e}
		require.Equal(t, &Run{}, folded[Run](list), kind)
		require.Equal(t, &Workspace{}, folded[Workspace](list), kind)
		require.Equal(t, &User{}, folded[User](list), kind)
	}
}

func TestRefusalsOfARun(t *testing.T) {
	for _, c := range []struct {
		fault  *fault.Fault
		status int
		code   string
	}{
		{ErrNoRun, 404, "run_not_found"},
		{ErrRunOver, 409, "run_over"},
		{ErrRunOutOfStep, 409, "run_out_of_step"},
		{ErrQueued, 409, "already_queued"},
		{ErrNoDecision, 404, "decision_not_found"},
		{ErrDecisionAnswered, 409, "decision_answered"},
		{ErrDecisionStale, 409, "decision_stale"},
		{ErrCapabilityRequired, 403, "capability_required"},
		{ErrApproverIsQueuer, 403, "approver_is_queuer"},
	} {
		require.Equal(t, c.status, c.fault.Kind.Status(), c.code)
		require.Equal(t, c.code, c.fault.Code)
	}
}
