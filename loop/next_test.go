package loop

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/engine/client"
	"svc/events"
)

const (
	base   = "b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0"
	head   = "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
	tree   = "7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e"
	other  = "0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d"
	policy = "50150150"
	patch  = "Do this:\n```diff\n--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n-a\n+b\n```\n"
)

func id(n int) events.ID { return events.ID{6: 7 << 4, 8: 2 << 6, 14: byte(n >> 8), 15: byte(n)} }

// progress returns the fold of events that follow on the queueing of an issue.
func progress(list ...events.Event) *aggregates.Progress {
	var run aggregates.Run
	run.Apply(events.RunQueued{Repo: events.Repo{ID: id(1), Name: "acme/web"}, IssueNumber: 7, IssueTitle: "Fix it"}, events.Actor{})
	for _, e := range list {
		run.Apply(e, events.Actor{})
	}
	return new(run.Progress(id(2), len(list)+1))
}

// then returns the events of all lists.
func then(lists ...[]events.Event) (all []events.Event) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func one(list ...events.Event) []events.Event { return list }

func enters(s events.Stage, attempt int) events.Event {
	return events.RunStageEntered{Stage: s, Attempt: attempt}
}

// The history of a run of a patch, stage by stage.
var (
	started  = one(events.RunStarted{Slot: 1, RepoSlot: 1}, enters(events.StageAnalyze, 1))
	analyzed = then(started, one(events.RunIssueRead{Title: "Fix it", Body: patch, Open: true},
		events.RunBaseRead{Branch: "main", Commit: base, Policy: policy, RequiredJobs: []string{"test", "lint"}}))
	planned = then(analyzed, one(enters(events.StagePlan, 1)))
	coding  = then(planned, one(events.RunPlanRecorded{Summary: "Apply it."}, events.RunBudgetSet{Rounds: 3},
		enters(events.StageImplementing, 1)))
	pushes = then(coding, one(events.RunBranchCreated{Branch: "run/x"},
		events.RunCommitsPushed{Head: head, Tree: tree, Base: base, By: "loop"}))
	clean1  = then(pushes, one(events.RunGuardrailsChecked{Head: head, Policy: policy, Status: "clean"}))
	builds  = then(clean1, one(enters(events.StageBuildFarm, 1)))
	built   = then(builds, job(3, "test", "required", head, "succeeded"), job(4, "lint", "required", head, "succeeded"))
	reviews = then(built, one(enters(events.StageSelfReview, 1)))
	merges  = then(reviews, one(events.RunReviewed{Head: head, Verdict: "pass"}, enters(events.StageMerge, 1)))
	opened  = then(merges, one(events.RunPullRequestOpened{Number: 12}))
	approve = then(opened, one(events.RunMergeApproved{Head: head}))
	inLane  = then(approve, one(events.RunLaneEntered{Branch: "main"}))
)

func candidate(tree string) events.Event {
	return events.RunMergeCandidate{Head: head, Base: base, Commit: other, Tree: tree}
}

// job returns the events of a job; it is open if state is "".
func job(n int, name string, purpose events.JobPurpose, at string, state events.JobState) []events.Event {
	list := one(events.RunJobRequested{Job: id(n), Name: name, Head: at, Purpose: purpose, Attempt: 1})
	if state != "" {
		list = append(list, events.RunJobSettled{Job: id(n), Status: string(state), ExitCode: new(1), Reason: "said so"})
	}
	return list
}

// connected is a repository in order, whose implementer is of a kind.
func connected(kind events.ImplementerKind) Surroundings {
	return Surroundings{Repo: Repo{Connected: true, Host: events.RepoHost{Kind: events.HostGitHub}, Settings: events.RepoSettings{
		Branch: "main", Implementer: events.Implementer{Kind: kind, Run: "./agent"}, MayAllowOnce: true, Rounds: 3, MaxActive: 5,
	}}}
}

func step(kind client.Kind) Move { return Move{Do: &Step{Kind: kind}} }

func TestNext(t *testing.T) {
	blocked := func(check string) events.Event {
		return events.RunGuardrailsChecked{Head: head, Policy: policy, Status: "blocked", Checks: []events.Guardrail{
			{Check: check, Status: "block", Findings: []events.GuardrailFinding{{Path: ".github/ci.yml", Rule: ".github/**"}}}}}
	}
	asked := events.DecisionRaised{Decision: id(9), About: events.MergeApproval, Head: head}
	failedStage := func(s events.Stage, reason string) events.Event {
		return events.RunStageFailed{Stage: s, Attempt: 1, Reason: reason}
	}
	over := events.RunCancelled{Reason: "no"}
	consults := func(in *Surroundings) {
		in.Repo.Settings.Implementer.Stages = []events.JobPurpose{events.JobAnalyzes, events.JobPlans, events.JobReviews}
	}
	missed := then(coding, job(3, "implement", "implement", base, "succeeded"), one(events.RunWaiting{Code: events.WaitAgent, Job: id(3)}))
	for name, c := range map[string]struct {
		given []events.Event
		kind  events.ImplementerKind
		in    func(*Surroundings)
		want  Move
	}{
		"a queued run takes a place": {want: Move{Claim: ClaimSlot}},
		"but not before an earlier one": {in: func(in *Surroundings) { in.Earlier = true },
			want: wait(events.WaitTidy, "An earlier run of this issue is being tidied up.", recheck)},
		"a paused repository": {given: builds, in: func(in *Surroundings) { in.Repo.Paused = "A freeze." },
			want: wait(events.WaitPaused, "A freeze.", recheck)},
		"a disconnected repository": {given: builds, in: func(in *Surroundings) { in.Repo.Connected = false },
			want: wait(events.WaitRepo, disconnected, recheck)},
		"the issue is read":          {given: started, want: step(client.StepIssue)},
		"a patch is committed":       {given: coding, want: step(client.StepCommit)},
		"a command runs at the farm": {given: coding, kind: "command", want: Move{Start: &Job{events.JobImplements, "implement", base, 1}}},
		"one at a time": {given: then(coding, job(3, "implement", "implement", base, "")), kind: "command",
			want: Move{Wait: &Wait{For: recheck}}},
		"its work is committed": {given: then(coding, job(3, "implement", "implement", base, "succeeded")), kind: "command",
			want: Move{Do: &Step{Kind: client.StepCommit, Job: id(3)}}},
		"also if it failed": {given: then(coding, job(3, "implement", "implement", base, "failed")), kind: "command",
			want: Move{Do: &Step{Kind: client.StepCommit, Job: id(3)}}},
		"a lost job is tried again": {given: then(coding, job(3, "implement", "implement", base, "lost")), kind: "command",
			want: Move{Start: &Job{events.JobImplements, "implement", base, 2}}},
		"it is run again with what people answered": {given: then(coding, job(3, "implement", "implement", base, "succeeded"), one(
			events.DecisionRaised{Decision: id(9), About: events.FactReview}, events.DecisionAnswered{Decision: id(9), About: events.FactReview})),
			kind: "command",
			want: Move{Start: &Job{events.JobImplements, "implement", base, 2}}},
		"R6: an implementer that was not available is tried again, in the same round": {given: missed, kind: "command",
			want: Move{Start: &Job{events.JobImplements, "implement", base, 2}}},
		"R6: not before its time": {given: missed, kind: "command", in: func(in *Surroundings) {
			in.Now = time.Unix(100, 0)
			in.Repo.Missed, in.Repo.RetryAt = "It answers 429.", time.Unix(160, 0)
		}, want: wait(events.WaitAgent, "It answers 429.", time.Minute)},
		"R6: nor do other runs": {given: coding, kind: "command",
			in:   func(in *Surroundings) { in.Repo.Missed, in.Repo.RetryAt = "It answers 429.", in.Now.Add(time.Second) },
			want: wait(events.WaitAgent, "It answers 429.", time.Second)},
		"R6: lost jobs before do not count": {given: then(coding, thrice(events.JobImplements, base, events.JobStateLost)[:4], one(
			events.RunJobRequested{Job: id(8), Name: "implement", Head: base, Purpose: events.JobImplements, Attempt: 3},
			events.RunJobSettled{Job: id(8), Status: "succeeded"}, events.RunWaiting{Code: events.WaitAgent, Job: id(8)},
			events.RunJobRequested{Job: id(9), Name: "implement", Head: base, Purpose: events.JobImplements, Attempt: 4},
			events.RunJobSettled{Job: id(9), Status: "lost"})), kind: "command",
			want: Move{Start: &Job{events.JobImplements, "implement", base, 5}}},
		"an implementer analyzes if it should": {given: analyzed, kind: "command", in: consults,
			want: Move{Start: &Job{events.JobAnalyzes, "analyze", base, 1}}},
		"what it says is read": {given: then(analyzed, job(3, "analyze", "analyze", base, "succeeded")), kind: "command", in: consults,
			want: Move{Do: &Step{Kind: stepConsult, Job: id(3)}}},
		"it plans": {given: planned, kind: "command", in: consults, want: Move{Start: &Job{events.JobPlans, "plan", base, 1}}},
		"also if it could not at first": {given: then(planned, job(3, "plan", "plan", base, "lost")), kind: "command", in: consults,
			want: Move{Start: &Job{events.JobPlans, "plan", base, 2}}},
		"it reviews the head": {given: then(reviews, job(8, "review", "review", base, "succeeded")), kind: "command", in: consults,
			want: Move{Start: &Job{events.JobReviews, "review", head, 1}}},
		"the head is inspected": {given: pushes, want: Move{Do: &Step{Kind: client.StepInspect, Head: head}}},
		"protected paths are asked for": {given: then(pushes, one(blocked("protected_paths"))),
			want: Move{Ask: &Question{events.ProtectedPathOnce, "Allow the change of .github/ci.yml this once?", head}}},
		"clean work is built": {given: clean1,
			want: record(events.RunStageSucceeded{Stage: events.StageImplementing, Attempt: 1}, enters(events.StageBuildFarm, 1))},
		"each required job is asked for": {given: builds, want: Move{Start: &Job{events.JobRequired, "test", head, 1}}},
		"before any is waited for": {given: then(builds, job(3, "test", "required", head, "")),
			want: Move{Start: &Job{events.JobRequired, "lint", head, 1}}},
		"an ended job is settled": {given: then(builds, job(3, "test", "required", head, "")),
			in:   func(in *Surroundings) { in.Jobs = map[events.ID]JobState{id(3): {events.JobStateSucceeded, true}} },
			want: Move{Settle: id(3)}},
		"all succeeded": {given: built,
			want: record(events.RunStageSucceeded{Stage: events.StageBuildFarm, Attempt: 1}, enters(events.StageSelfReview, 1))},
		"a patch that fails": {given: then(builds, job(3, "test", "required", head, "failed"), job(4, "lint", "required", head, "succeeded")),
			want: record(failedStage(events.StageBuildFarm, "The job test failed with exit code 1."),
				events.RunFailed{Stage: events.StageBuildFarm, Reason: "The job test failed with exit code 1.", Code: events.FailRounds})},
		"a command gets another round": {given: then(builds, job(3, "test", "required", head, "failed"), job(4, "lint", "required", head,
			"succeeded")),
			kind: "command",
			want: record(failedStage(events.StageBuildFarm, "The job test failed with exit code 1."), enters(events.StageImplementing, 2))},
		"from its own work": {given: then(builds, one(failedStage(events.StageBuildFarm, "x"), enters(events.StageImplementing, 2))),
			kind: "command",
			want: Move{Start: &Job{events.JobImplements, "implement", head, 1}}},
		"all others first": {given: then(builds, job(3, "test", "required", head, "failed"), job(4, "lint", "required", head, "")),
			want: Move{Wait: &Wait{For: recheck}}},
		"the review":       {given: reviews, want: record(events.RunReviewed{Head: head, Verdict: "pass"})},
		"the pull request": {given: merges, want: step(client.StepPropose)},
		"none without one": {given: merges, in: func(in *Surroundings) { in.Repo.Host.Kind = events.HostGit },
			want: Move{Ask: &Question{events.MergeApproval, "Merge “Fix it” into main?", head}}},
		"a person is asked": {given: opened, want: Move{Ask: &Question{events.MergeApproval, "Merge #12 “Fix it” into main?", head}}},
		"and waited for":    {given: then(opened, one(asked)), want: Move{Wait: &Wait{}}},
		"the turn to merge": {given: approve, want: Move{Claim: ClaimLane}},
		"a candidate":       {given: inLane, want: step(client.StepReady)},
		"not what a newer policy blocks": {given: then(inLane, one(blocked("protected_paths"))),
			want: record(events.RunMergeApprovalVoided{Head: head, Reason: "policy_changed"})},
		"with the same tree": {given: then(inLane, one(candidate(tree))),
			want: record(events.RunMergeAttempted{Head: head, Commit: other})},
		"another tree is tested": {given: then(inLane, one(candidate(other))), want: Move{Start: &Job{events.JobLane, "test", other, 1}}},
		"and merged if it passes": {given: then(inLane, one(candidate(other)), job(5, "test", "lane", other, "succeeded"),
			job(6, "lint", "lane", other, "succeeded")),
			want: record(events.RunMergeAttempted{Head: head, Commit: other})},
		"an attempt is finished": {given: then(inLane, one(candidate(tree), events.RunMergeAttempted{Head: head, Commit: other})),
			want: step(client.StepMerge)},
		"the base moves too fast": {given: then(inLane, tenTimes(candidate(tree), events.RunMergeAttempted{Head: head, Commit: other},
			events.RunMergePostponed{Head: head, Reason: "base_moved"})),
			want: record(events.RunMergeApprovalVoided{Head: head, Reason: "base_moving"})},
		"stopped while merging": {given: then(inLane, one(candidate(tree), events.RunMergeAttempted{Head: head, Commit: other},
			events.RunStopRequested{Reason: "no"})),
			want: step(client.StepMerge)},
		"and ended after it": {given: then(inLane, one(candidate(tree), events.RunMergeAttempted{Head: head, Commit: other},
			events.RunStopRequested{Reason: "no"}, events.RunMergePostponed{Head: head, Reason: "base_moved"})),
			want: record(events.RunCancelled{Reason: "no"})},
		"merged by somebody": {given: then(opened, one(asked)), in: func(in *Surroundings) {
			in.Look = &client.LookResult{Head: head, PullRequest: &client.PullRequest{
				State: "merged", Head: head, MergeCommit: other, Tree: tree, FirstParent: base, By: "zoe",
			}}
		}, want: record(events.RunMerged{Head: head, MergeCommit: other, Tree: tree, Base: base, Outside: true, By: "zoe"})},
		"closed by somebody": {given: then(opened, one(asked)), in: func(in *Surroundings) {
			in.Look = &client.LookResult{Head: head, PullRequest: &client.PullRequest{State: "closed", By: "zoe"}}
		}, want: record(events.RunRejected{Reason: "The pull request was closed at the code host by zoe."})},
		"pushed by somebody": {given: then(opened, one(asked)),
			in:   func(in *Surroundings) { in.Look = &client.LookResult{Head: other} },
			want: Move{Do: &Step{Kind: client.StepInspect, Head: other}}},
		"nothing to tidy up":  {given: then(started, one(over)), want: record(events.RunTidied{PullRequest: "none", Branch: "none"})},
		"a branch is deleted": {given: then(pushes, one(over)), want: step(client.StepTidy)},
		"unless nobody may": {given: then(pushes, one(over)), in: func(in *Surroundings) { in.Repo.Connected = false },
			want: record(events.RunTidied{PullRequest: "left", Branch: "left"})},
		"nor when paused": {given: then(pushes, one(over)), in: func(in *Surroundings) { in.Repo.Paused = "x" },
			want: Move{Wait: &Wait{For: recheck}}},
		"then nothing": {given: then(pushes, one(over, events.RunTidied{PullRequest: "none", Branch: "deleted"})),
			want: Move{Done: true}},
		"an untested merge is tested": {given: then(inLane, one(events.RunMerged{Head: head, MergeCommit: other, Untested: true})),
			want: Move{Start: &Job{events.JobAfterMerge, "test", other, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.kind == "" {
				c.kind = events.ImplementerPatch
			}
			in := connected(c.kind)
			if c.in != nil {
				c.in(&in)
			}
			require.Equal(t, c.want, Next(progress(c.given...), in))
		})
	}
}

// The policy file lowers what the settings let a run use.
func TestThePolicyLimitsTheBudget(t *testing.T) {
	in := connected(events.ImplementerCommand)
	in.Repo.Settings.Cents = 500
	budget := func(base events.RunBaseRead) events.Event {
		base.Branch, base.Commit, base.Policy = "main", "c1", policy
		m := Next(progress(then(planned, one(base))...), in)
		require.Greater(t, len(m.Record), 1, "%+v", m)
		return m.Record[1]
	}
	require.Equal(t, events.RunBudgetSet{Cents: 200, Rounds: 2}, budget(events.RunBaseRead{Cents: 200, Rounds: 2}))
	require.Equal(t, events.RunBudgetSet{Cents: 500, Rounds: 3}, budget(events.RunBaseRead{}), "an earlier build said nothing")
}

func tenTimes(list ...events.Event) (all []events.Event) {
	for range maxPostponed {
		all = append(all, list...)
	}
	return all
}

func TestNextGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		given []events.Event
		kind  events.ImplementerKind
		code  events.FailCode
	}{
		"no patch": {then(started, one(events.RunIssueRead{Body: "Do it.", Open: true},
			events.RunBaseRead{Branch: "main", Commit: base, Policy: policy})), "patch", events.FailNoPatch},
		"a rule nobody can lift": {then(pushes, one(events.RunGuardrailsChecked{Head: head, Policy: policy, Status: "blocked",
			Checks: []events.Guardrail{{Check: "secrets", Status: "block"}}})), "patch", events.FailGuardrails},
		"all rounds are used": {then(builds, one(enters(events.StageImplementing, 3), enters(events.StageBuildFarm, 2)),
			job(3, "test", "required", head, "failed"), job(4, "lint", "required", head, "succeeded")), "command", events.FailRounds},
		"R35: the budget is used": {then(coding, one(events.RunBudgetSet{Cents: 5, Rounds: 3}, events.RunCostRecorded{Cents: 5, Key: "k"})),
			"command", events.FailBudget},
		"R35: that of the issue is": {coding, "command", events.FailBudget},
		"R36: nobody knows what is left of it": {then(coding, one(events.RunBudgetSet{Cents: 5, Rounds: 3},
			events.RunCostRecorded{Key: "k", Unknown: true})), "command", events.FailBudget},
		"the farm cannot": {then(coding, thrice(events.JobImplements, base, events.JobStateLost)), "command", events.FailSurroundings},
	} {
		t.Run(name, func(t *testing.T) {
			in := connected(c.kind)
			if name == "R35: that of the issue is" {
				in.Repo.Settings.IssueCents = 40
				in.Issue.Apply(events.IssueCostRecorded{Cents: 40}, events.Actor{})
			}
			m := Next(progress(c.given...), in)
			require.NotEmpty(t, m.Record)
			last, ok := m.Record[len(m.Record)-1].(events.RunFailed)
			require.True(t, ok, "%+v", m)
			require.Equal(t, c.code, last.Code)
			require.NotEmpty(t, last.Reason)
		})
	}
}

func thrice(purpose events.JobPurpose, at string, state events.JobState) (list []events.Event) {
	for n := range maxTries {
		list = append(list, events.RunJobRequested{Job: id(20 + n), Name: "implement", Head: at, Purpose: purpose, Attempt: n + 1},
			events.RunJobSettled{Job: id(20 + n), Status: string(state)})
	}
	return list
}

func TestPatchOf(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"none":             {"Do it.", ""},
		"one":              {patch, "--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n-a\n+b\n"},
		"two":              {"```diff\nA\n```\n```patch\nB\n```\n", "A\nB\n"},
		"lines of Windows": {"```diff\r\nA\r\n```\r\n", "A\n"},
		"longer fences":    {"````diff\n```\nA\n````\n", "```\nA\n"},
		"tildes":           {"~~~ diff\nA\n~~~\n", "A\n"},
		"not closed":       {"```diff\nA\n", ""},
		"another language": {"```go\nA\n```\n", ""},
		"white space":      {"```diff\n \tA  \n```\n", " \tA  \n"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, patchOf(c.text)) })
	}
	require.Equal(t, []string{"x.txt", "y.txt"}, patchedFiles("--- a/x.txt\n+++ b/x.txt\n--- /dev/null\n+++ b/y.txt\t2026\n"))
}

func TestBackoffGrowsUpToALimit(t *testing.T) {
	for n, most := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 60: maxBackoff} {
		for range 100 {
			require.LessOrEqual(t, backoff(n), most)
			require.GreaterOrEqual(t, backoff(n), most/2)
		}
	}
}

func TestR31HiddenTextIsAFact(t *testing.T) {
	t.Parallel()
	p := progress(then(started, one(events.RunIssueRead{Title: "Fix it", Body: "Do it.<!-- or not -->\u200b\n" + patch, Open: true},
		events.RunBaseRead{Branch: "main", Commit: base, Policy: policy}))...)
	m := Next(p, Surroundings{Repo: Repo{Connected: true}})
	found := m.Record[slices.IndexFunc(m.Record, func(e events.Event) bool { return e.Kind() == "run.facts_recorded" })]
	require.Contains(t, found.(events.RunFactsRecorded).Facts,
		"Hidden text was taken out of the issue: 1 comment, 1 character that nobody sees.")
}
