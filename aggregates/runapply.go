package aggregates

import (
	"slices"

	"svc/events"
)

// Apply adds one event. Events before RunQueued are ignored, because any stream may be
// loaded as a run's.
func (r *Run) Apply(e events.Event, by events.Actor) {
	_, begins := e.(events.RunQueued)
	if r.p.Status == "" && !begins {
		return
	}
	switch e.(type) {
	case events.RunWaiting, events.RunCostRecorded:
	default:
		r.p.Wait = nil
	}
	switch e := e.(type) {
	case events.RunQueued:
		r.begin(e, by)
	case events.RunStageEntered:
		r.enter(e)
	case events.RunStageSucceeded:
		r.p.StageOver, r.p.StageSucceeded = true, true
	case events.RunStageFailed:
		r.p.StageOver = true
		if e.Stage.Index() >= events.StageImplementing.Index() && !r.noted {
			r.failure = e.Reason
		}
	case events.RunStarted:
		r.p.Started = &e
	case events.RunWaiting:
		if r.p.Wait = &e; e.Code == "" {
			r.p.Wait = nil
		}
		if i := r.p.job(e.Job); i >= 0 {
			r.p.Jobs[i].Away = true
		}
	case events.RunHumanIntervened:
		// nothing is decided by it
	case events.RunCostRecorded:
		r.p.Cents += e.Cents
		r.p.CostUnknown = r.p.CostUnknown || e.Unknown
		if i, known := slices.BinarySearch(r.costKeys, e.Key); e.Key != "" && !known {
			r.costKeys = slices.Insert(r.costKeys, i, e.Key)
		}
	case events.RunTidied:
		r.p.Tidied = &e
	case events.RunRejected:
		r.end(events.RunStatusRejected)
	case events.RunFailed:
		r.end(events.RunStatusFailed)
	case events.RunCancelled:
		r.end(events.RunStatusCancelled)
	default:
		r.applyWork(e)
		r.applyMerge(e, by)
		r.applyDecision(e)
	}
}

func (r *Run) begin(e events.RunQueued, by events.Actor) {
	*r = Run{decisions: map[events.ID]decision{}, p: Progress{
		Repo: e.Repo, Issue: e.IssueNumber, Title: e.IssueTitle, Body: e.IssueBody, RetryOf: e.RetryOf, Queuer: by,
		Status: events.RunStatusQueued, Attempts: map[events.Stage]int{},
		Stage: events.StageQueued, StageOver: true, StageSucceeded: true, // a run leaves Queued as soon as it has a place
	}}
}

// enter begins a stage. A run that leaves Merge loses its turn. What failed before another round
// is a finding of that round.
func (r *Run) enter(e events.RunStageEntered) {
	r.p.Stage, r.p.StageOver, r.p.StageSucceeded, r.p.Status = e.Stage, false, false, e.Stage.Status()
	r.p.Attempts[e.Stage] = e.Attempt
	if e.Stage == events.StageImplementing && r.failure != "" {
		r.p.Findings = append(r.p.Findings, r.failure)
	}
	r.failure, r.noted = "", false
	if e.Stage != events.StageMerge {
		r.leaveLane()
	}
}

// applyWork adds what the stages before Merge found and made.
func (r *Run) applyWork(e events.Event) {
	p := &r.p
	switch e := e.(type) {
	case events.RunIssueRead:
		p.IssueRead = &e
	case events.RunBaseRead:
		if p.Guardrails != nil && p.Guardrails.Policy != e.Policy {
			p.Guardrails, p.AllowedAt = nil, ""
		}
		if p.Base != nil && p.Base.Commit != e.Commit {
			p.Rebased, r.trees = p.Rebased || p.Head != "", nil
		}
		p.Base = &e
	case events.RunFactsRecorded:
		p.Facts = e.Facts
	case events.RunPlanRecorded:
		p.Plan, r.plannedIn = &e, p.Attempts[events.StagePlan]
	case events.RunBudgetSet:
		p.Budget = &e
	case events.RunEstimated:
		p.Estimated = append(p.Estimated, e.When)
	case events.RunBranchCreated:
		p.Branch = e.Branch
	case events.RunCommitsPushed:
		if e.Head != p.Head {
			p.Guardrails, p.Review, p.AllowedAt, p.Candidate = nil, nil, "", nil
		}
		p.Head, p.Tree, p.HeadBy, p.Changed = e.Head, e.Tree, e.By, e.Changed()
		p.HeadRound, p.Rebased, p.Repeats = p.Round(), false, r.repeats(e)
	case events.RunGuardrailsChecked:
		p.Guardrails = &e
	case events.RunReviewed:
		p.Review = &e
	case events.RunJobRequested:
		p.Jobs = append(p.Jobs, RunJob{RunJobRequested: e, Round: p.Round()})
	case events.RunJobSettled:
		if i := p.job(e.Job); i >= 0 {
			j := &p.Jobs[i]
			j.State, j.Reason, j.ExitCode, j.Failure = events.JobState(e.Status), e.Reason, e.ExitCode, e.Failure
		}
	}
}

// repeats returns the earlier round that made the tree of a push, or 0. What people push counts as new.
func (r *Run) repeats(e events.RunCommitsPushed) int {
	if e.By != events.PushedByLoop || e.Tree == "" {
		return 0
	}
	round, now := r.trees[e.Tree], r.p.Round()
	if round > 0 && round < now {
		return round
	}
	if r.trees == nil {
		r.trees = map[string]int{}
	}
	r.trees[e.Tree] = now
	return 0
}

// applyMerge adds what leads to the merge.
func (r *Run) applyMerge(e events.Event, by events.Actor) {
	p := &r.p
	switch e := e.(type) {
	case events.RunPullRequestOpened:
		p.PullRequest = e.Number
	case events.RunMergeApproved:
		p.Approved, p.Approver, p.Postponed = e.Head, by, 0
	case events.RunMergeApprovalVoided:
		p.Approved, p.ApprovedBy, p.Approver, p.Postponed = "", events.ID{}, events.Actor{}, 0
		r.leaveLane()
		r.stopMerging()
	case events.RunLaneEntered:
		p.Lane = true
	case events.RunMergeCandidate:
		p.Candidate = &e
	case events.RunMergeAttempted:
		p.Status, p.Attempted = events.RunStatusMerging, true
	case events.RunMergePostponed:
		p.Candidate = nil
		p.Postponed++
		r.stopMerging()
	case events.RunStopRequested:
		p.Stop = &e
	case events.RunMerged:
		p.Merged = &e
		r.end(events.RunStatusMerged)
	}
}

// stopMerging ends an attempt to merge.
func (r *Run) stopMerging() {
	r.p.Attempted = false
	if r.p.Status == events.RunStatusMerging {
		r.p.Status = events.RunStatusAwaitingApproval
	}
}

// leaveLane gives the run's turn to merge away, and with it the candidate.
func (r *Run) leaveLane() { r.p.Lane, r.p.Candidate = false, nil }

func (r *Run) end(status events.RunStatus) { r.p.Status, r.p.Lane = status, false }
