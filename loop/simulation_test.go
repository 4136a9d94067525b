package loop

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/engine/client"
	"svc/events"
)

// A world is what surrounds a run in a simulation: a farm and a code host that fail at random, and people who answer,
// push and stop things. All of it is pure.
type world struct {
	t      *testing.T
	random *rand.Rand
	run    aggregates.Run
	n      int // of ids and commits made so far
	by     events.Actor
	log    []events.Event
	ends   map[events.ID]events.JobState
	look   *client.LookResult
}

// TestRunsEnd plays runs in worlds at random. Whatever happens, Next proposes nothing that the aggregate refuses, and the
// run ends.
func TestRunsEnd(t *testing.T) {
	ended := map[events.RunStatus]int{}
	for seed := range uint64(3000) {
		w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), ends: map[events.ID]events.JobState{}}
		ended[w.play(seed)]++
	}
	for _, s := range []events.RunStatus{events.RunStatusMerged, events.RunStatusRejected, events.RunStatusFailed, events.RunStatusCancelled} {
		require.Greater(t, ended[s], 20, "%v", ended)
	}
}

// TestR40RunsOfEarlierBuildsGoOn plays on from each moment of a stream without places, bases, trees and purposes of jobs,
// that was decided under another policy.
func TestR40RunsOfEarlierBuildsGoOn(t *testing.T) {
	stage := func(s events.Stage) events.Event { return events.RunStageSucceeded{Stage: s, Attempt: 1} }
	earlier := one(
		events.RunQueued{Repo: events.Repo{ID: id(1), Name: "acme/web"}, IssueNumber: 7, IssueTitle: "Fix it"},
		enters(events.StageAnalyze, 1), events.RunFactsRecorded{Facts: []string{"A fact."}}, events.RunCostRecorded{Cents: 3},
		stage(events.StageAnalyze), enters(events.StagePlan, 1), events.RunPlanRecorded{Summary: "Mend it."},
		events.RunBudgetSet{Cents: 500, Rounds: 3}, stage(events.StagePlan), enters(events.StageImplementing, 1),
		events.RunBranchCreated{Branch: "run/7"}, events.RunCommitsPushed{Head: head, Base: base, By: events.PushedByLoop},
		events.RunGuardrailsChecked{Head: head, Policy: "earlier", Status: "clean"},
		stage(events.StageImplementing), enters(events.StageBuildFarm, 1), events.RunJobRequested{Job: id(50), Name: "test", Head: head},
		events.RunJobSettled{Job: id(50), Status: string(events.JobStateFailed)},
		events.RunStageFailed{Stage: events.StageBuildFarm, Attempt: 1, Reason: "It failed."}, enters(events.StageBuildFarm, 2),
		events.RunJobRequested{Job: id(51), Name: "test", Head: head},
		events.RunJobSettled{Job: id(51), Status: string(events.JobStateSucceeded)},
		events.RunStageSucceeded{Stage: events.StageBuildFarm, Attempt: 2}, enters(events.StageSelfReview, 1),
		events.RunReviewed{Head: head, Verdict: "pass"}, stage(events.StageSelfReview), enters(events.StageMerge, 1),
		events.RunPullRequestOpened{Number: 12}, events.DecisionRaised{Decision: id(52), About: events.MergeApproval, Head: head},
		events.DecisionAnswered{Decision: id(52), About: events.MergeApproval, Action: aggregates.ActionApproveAndMerge, Head: head},
		events.RunMergeApproved{Head: head}, events.RunMergeAttempted{Head: head}, stage(events.StageMerge),
	)
	merged := map[int]bool{}
	for n := 1; n <= len(earlier); n++ {
		for seed := range uint64(100) {
			w := &world{t: t, random: rand.New(rand.NewPCG(seed, 40)), ends: map[events.ID]events.JobState{}, n: 100}
			w.apply(earlier[:n:n], nil)
			merged[n] = w.play(seed) == events.RunStatusMerged || merged[n]
		}
		require.True(t, merged[n], "after %T", earlier[n-1])
	}
}

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.random.IntN(n) == 0 }

func (w *world) sha() string { w.n++; return fmt.Sprintf("%040x", w.n) }

func (w *world) apply(list []events.Event, err error) {
	require.NoError(w.t, err, "after %v", w.log[max(0, len(w.log)-6):])
	for _, e := range list {
		w.run.Apply(e, w.by)
	}
	w.log = append(w.log, list...)
}

func (w *world) record(facts ...events.Event) { w.apply(w.run.Record(facts...)) }

func (w *world) play(seed uint64) events.RunStatus {
	in := connected(events.ImplementerPatch)
	if w.chance(2) {
		in = connected(events.ImplementerCommand)
	}
	if w.chance(5) {
		in.Repo.Host.Kind = events.HostGit
	}
	if in.Repo.Settings.Implementer.Kind == events.ImplementerCommand && w.chance(2) {
		in.Repo.Settings.Implementer.Stages = []events.JobPurpose{events.JobAnalyzes, events.JobPlans, events.JobReviews}
	}
	if len(w.log) == 0 {
		w.apply(w.run.Queue(events.RunQueued{Repo: events.Repo{ID: id(1), Name: "acme/web"}, IssueNumber: 7, IssueTitle: "Fix it"}))
	}
	for range 400 {
		p := w.run.Progress(id(2), len(w.log))
		in.Jobs, in.Look = map[events.ID]JobState{}, w.look
		w.look = nil
		for _, j := range p.Jobs {
			if j.State == "" {
				in.Jobs[j.Job] = JobState{w.ends[j.Job], w.ends[j.Job] != ""}
			}
		}
		m := Next(&p, in)
		if m.Done {
			return p.Status
		}
		w.carryOut(&p, in, m)
		w.disturb()
	}
	require.Fail(w.t, "it does not end", "seed %d: %v", seed, w.log[max(0, len(w.log)-20):])
	return ""
}

// disturb lets somebody do something outside.
func (w *world) disturb() {
	p := w.run.Progress(id(2), 0)
	if p.Over() {
		return
	}
	switch w.random.IntN(60) {
	case 0:
		w.apply(w.run.Cancel("no"))
	case 1:
		if p.Head != "" && p.Status != events.RunStatusMerging {
			w.look = &client.LookResult{Head: w.sha()}
		}
	case 2:
		if p.PullRequest > 0 && p.Status != events.RunStatusMerging {
			w.look = &client.LookResult{Head: p.Head, PullRequest: &client.PullRequest{State: "closed"}}
		}
	case 3:
		if p.PullRequest > 0 && p.Status != events.RunStatusMerging {
			w.look = &client.LookResult{Head: p.Head, PullRequest: &client.PullRequest{State: "merged", Head: p.Head, MergeCommit: w.sha()}}
		}
	}
}

// carryOut does what a move says, with results at random.
func (w *world) carryOut(p *aggregates.Progress, in Surroundings, m Move) {
	switch {
	case !m.Settle.IsZero():
		w.record(events.RunJobSettled{Job: m.Settle, Status: string(w.ends[m.Settle]), ExitCode: new(1)})
	case m.Record != nil:
		w.record(m.Record...)
	case m.Ask != nil:
		w.n++
		w.record(events.DecisionRaised{Decision: id(w.n), About: m.Ask.Kind, Question: m.Ask.Text, Head: m.Ask.Head})
	case m.Claim == ClaimSlot:
		w.record(events.RunStarted{Slot: 1, RepoSlot: 1}, enters(events.StageAnalyze, 1))
	case m.Claim == ClaimLane:
		w.record(events.RunLaneEntered{Branch: "main"})
	case m.Start != nil:
		w.n++
		w.record(events.RunJobRequested{Job: id(w.n), Name: m.Start.Name, Head: m.Start.Head, Purpose: m.Start.Purpose, Attempt: m.Start.Attempt})
	case m.Wait != nil:
		w.wait(p)
	case m.Do != nil:
		w.do(p, in, *m.Do)
	}
}

// wait lets happen what a run waits for: a job ends, or a person answers.
func (w *world) wait(p *aggregates.Progress) {
	for _, j := range p.Jobs {
		if j.State == "" && w.ends[j.Job] == "" {
			w.ends[j.Job] = []events.JobState{
				events.JobStateSucceeded, events.JobStateSucceeded, events.JobStateSucceeded, events.JobStateFailed, events.JobStateLost,
				events.JobStateTimedOut, events.JobStateExpired, events.JobStateCancelled,
			}[w.random.IntN(8)]
			return
		}
	}
	if d := p.Decision; d != nil {
		actions := aggregates.Actions(d.Kind)
		action := actions[0]
		if w.chance(4) {
			action = actions[w.random.IntN(len(actions))]
		}
		w.by = events.Actor{Type: events.ByUser, ID: id(99)}
		w.apply(w.run.Answer(aggregates.Answer{Decision: d.ID, Action: action, Note: "because", ExpectedHead: d.Head}))
		w.by = events.Actor{}
	}
}

// do records what a step could have found.
func (w *world) do(p *aggregates.Progress, in Surroundings, s Step) {
	guard := func(head, policy string) events.RunGuardrailsChecked {
		g := events.RunGuardrailsChecked{Head: head, Policy: policy, Status: "clean"}
		if w.chance(6) {
			found := []events.GuardrailFinding{{Path: "x", Rule: "x"}}
			g.Status, g.Checks = "blocked", []events.Guardrail{{Check: "protected_paths", Status: "block", Findings: found}}
		}
		return g
	}
	switch s.Kind {
	case client.StepIssue:
		read := events.RunIssueRead{Title: "Fix it", Body: patch, Open: !w.chance(8)}
		w.record(read, events.RunBaseRead{Branch: "main", Commit: base, Policy: policy, RequiredJobs: []string{"test"}})
	case client.StepCommit:
		if !s.Job.IsZero() && w.chance(5) {
			w.record(events.RunWaiting{Code: events.WaitAgent, Detail: "It answers 429.", Job: s.Job})
			return
		}
		if w.chance(10) {
			w.record(failed(p, events.FailNoPatch, "It does not apply.")...)
			return
		}
		var facts []events.Event
		if p.Branch == "" {
			facts = append(facts, events.RunBranchCreated{Branch: "run/x"})
		}
		w.record(append(facts, events.RunCommitsPushed{Head: w.sha(), Tree: w.sha(), Base: base, By: "loop"})...)
	case stepConsult:
		w.consult(p, in, s.Job)
	case client.StepInspect:
		if s.Head == p.Head {
			w.record(guard(s.Head, p.Base.Policy))
			return
		}
		facts := []events.Event{events.RunCommitsPushed{Head: s.Head, Tree: w.sha(), Base: base, By: "person"}, guard(s.Head, p.Base.Policy)}
		w.record(append(facts, afterPush(p)...)...)
	case client.StepPropose:
		w.record(events.RunPullRequestOpened{Number: 12})
	case client.StepReady:
		w.ready(p, in, guard)
	case client.StepMerge:
		if w.chance(3) {
			w.record(events.RunMergePostponed{Head: p.Head, Reason: "base_moved"})
			return
		}
		w.record(events.RunStageSucceeded{Stage: events.StageMerge, Attempt: p.Attempts[events.StageMerge]},
			events.RunMerged{Head: p.Head, MergeCommit: w.sha(), Tree: p.Candidate.Tree, Untested: w.chance(5)})
	case client.StepTidy:
		w.record(events.RunTidied{PullRequest: "closed", Branch: "deleted"})
	}
}

// consult has the implementer do the stage of a job, or not.
func (w *world) consult(p *aggregates.Progress, in Surroundings, job events.ID) {
	if w.chance(4) {
		w.record(events.RunWaiting{Code: events.WaitAgent, Detail: "It answers 429.", Job: job})
		return
	}
	review := events.RunReviewed{Head: p.Head, Verdict: aggregates.ReviewPass}
	switch p.Stage {
	case events.StageAnalyze:
		w.record(enter(p, events.StagePlan, events.RunFactsRecorded{Facts: facts(p, in)}).Record...)
	case events.StagePlan:
		planned, budget := ownPlan(p, in)
		w.record(enter(p, events.StageImplementing, planned, budget).Record...)
	case events.StageSelfReview:
		if w.chance(3) {
			review.Verdict = aggregates.ReviewBlocking
			w.record(append([]events.Event{review}, again(p, in, events.FailRounds, "It is wrong.").Record...)...)
			return
		}
		w.record(review)
	}
}

// ready finds a conflict, another policy, or a candidate.
func (w *world) ready(p *aggregates.Progress, in Surroundings, guard func(head, policy string) events.RunGuardrailsChecked) {
	at := events.RunBaseRead{Branch: "main", Commit: w.sha(), Policy: policy, RequiredJobs: []string{"test"}}
	switch {
	case w.chance(6):
		w.record(again(p, in, events.FailRounds, "It conflicts.", at).Record...)
	case w.chance(6):
		at.Policy, at.RequiredJobs = w.sha(), []string{"test", "lint"}
		w.record(at, guard(p.Head, at.Policy))
	default:
		c := events.RunMergeCandidate{Head: p.Head, Base: at.Commit, Commit: w.sha(), Tree: p.Tree}
		if p.Tree == "" || w.chance(2) {
			c.Tree = w.sha()
		}
		w.record(c)
	}
}
