package runviews

import (
	"slices"
	"time"

	"svc/events"
)

// runEvent is any event of a run's stream.
type runEvent interface{ IsRun() }

func queuedDetail(at time.Time) RunDetail {
	d := RunDetail{Files: []events.FileChange{}, Jobs: []RunJob{}, Checks: []events.Guardrail{}, Guardrails: "unchecked"}
	for range events.Stages() {
		d.Stages = append(d.Stages, RunStage{Status: "pending"})
	}
	at = at.Truncate(time.Millisecond)
	d.Stages[0] = RunStage{Status: "active", Attempt: 1, StartedAt: &at}
	return d
}

func (d RunDetail) clone() RunDetail {
	d.Stages, d.Jobs = slices.Clone(d.Stages), slices.Clone(d.Jobs)
	return d
}

// stage returns the index of a stage in the run's stages. A stage of a newer build, which this one
// does not know, is appended.
func (d *RunDetail) stage(s events.Stage) int {
	if i := s.Index(); i >= 0 {
		return i
	}
	known := len(events.Stages())
	i := slices.IndexFunc(d.Stages[known:], func(other RunStage) bool { return other.Name == string(s) })
	if i < 0 {
		d.Stages = append(d.Stages, RunStage{Name: string(s), Status: "pending"})
		return len(d.Stages) - 1
	}
	return known + i
}

// apply applies an event after the run was queued.
func (run *Run) apply(r events.Record) {
	d := &run.Detail
	at := r.At.Truncate(time.Millisecond)
	run.applyWait(r)
	run.applyMerge(r)
	switch e := r.Event.(type) {
	case events.RunStageEntered:
		run.enter(e, at)
	case events.RunStageSucceeded:
		d.Stages[d.stage(e.Stage)].end("succeeded", at)
	case events.RunStageFailed:
		d.Stages[d.stage(e.Stage)].end("failed", at)
	case events.RunBranchCreated:
		run.Branch, d.Branch = e.Branch, e.Branch
	case events.RunCommitsPushed:
		d.Head, d.Files, d.Total = e.Head, e.Files, e.Total
		d.Guardrails, d.Checks = "unchecked", []events.Guardrail{}
	case events.RunGuardrailsChecked:
		d.Guardrails, d.Checks = e.Status, e.Checks
	case events.RunJobRequested:
		d.Jobs = append(d.Jobs, RunJob{ID: e.Job, Name: e.Name, Status: "requested", Purpose: e.Purpose, Attempt: e.Attempt})
		run.OpenJobs = d.openJobs()
		run.JobRounds = append(slices.Clip(run.JobRounds), run.Round)
	case events.RunJobSettled:
		for i := range d.Jobs {
			if d.Jobs[i].ID == e.Job {
				d.Jobs[i].Status, d.Jobs[i].ComputeMS, d.Jobs[i].Reason, d.Jobs[i].ExitCode = e.Status, e.ComputeMS, e.Reason, e.ExitCode
			}
		}
		run.OpenJobs = d.openJobs()
	case events.RunBaseRead:
		d.Target = e.Branch
	case events.RunPlanRecorded:
		if d.Plan = nil; len(e.Files) > 0 || e.Risk != "" || e.Implementer != "" {
			d.Plan = &RunPlan{e.Files, e.Risk, e.Implementer}
		}
	case events.RunEstimated:
		d.Estimates = append(d.Estimates[:len(d.Estimates):len(d.Estimates)], RunEstimate{e.When, e.Size, e.Cents, e.WorkMS, e.Merged, e.Basis})
	case events.RunPullRequestOpened:
		run.PRNumber = &e.Number
	case events.DecisionRaised:
		run.WaitsFor = e.About
		if e.About != events.MergeApproval {
			run.Status = events.RunStatusNeedsInput
		}
		d.Stages[run.Stage].Status = "blocked"
	case events.DecisionAnswered:
		run.resume()
	case events.DecisionVoided:
		run.resume()
	case events.RunBudgetSet:
		run.BudgetCents, run.BudgetComputeMS, run.BudgetRounds = e.Cents, e.ComputeMS, e.Rounds
	case events.RunCostRecorded:
		run.CostCents += e.Cents
		d.CostUnknown = d.CostUnknown || e.Unknown
	case events.RunStarted:
		d.Started = true
	case events.RunTidied:
		d.Tidied, run.Tidied = &RunTidied{e.PullRequest, e.Branch}, true
	case events.RunMerged:
		run.finish(events.RunStatusMerged, "succeeded", r.At)
	case events.RunRejected:
		run.finish(events.RunStatusRejected, "failed", r.At)
		d.End = &RunEnd{Reason: e.Reason}
	case events.RunFailed:
		run.finish(events.RunStatusFailed, "failed", r.At)
		d.End = &RunEnd{e.Reason, e.Code}
	case events.RunCancelled:
		run.finish(events.RunStatusCancelled, "skipped", r.At)
		d.End = &RunEnd{Reason: e.Reason}
	}
}

// applyWait applies what the run waits for. It holds until the next event, except that of a cost.
func (run *Run) applyWait(r events.Record) {
	switch e := r.Event.(type) {
	case events.RunCostRecorded:
	case events.RunWaiting:
		switch e.Code {
		case "":
			run.WaitSince = nil
		case run.WaitCode:
		default:
			run.WaitSince = &r.At
		}
		run.WaitCode, run.WaitDetail = e.Code, e.Detail
	default:
		run.WaitCode, run.WaitDetail, run.WaitSince = "", "", nil
	}
}

// applyMerge applies the steps of the merge.
func (run *Run) applyMerge(r events.Record) {
	d := &run.Detail
	switch e := r.Event.(type) {
	case events.RunStageEntered:
		if e.Stage != events.StageMerge {
			d.Lane, d.Candidate = false, nil
		}
	case events.RunCommitsPushed:
		d.Candidate = nil
	case events.RunLaneEntered:
		d.Lane = true
	case events.RunMergeCandidate:
		d.Candidate = &RunCandidate{e.Base, e.Commit, e.Tree}
	case events.RunMergeAttempted:
		run.Status = events.RunStatusMerging
	case events.RunMergePostponed:
		d.Candidate = nil
		d.Postponed++
		run.stopMerging()
	case events.RunMergeApprovalVoided:
		d.Lane, d.Candidate, d.Postponed = false, nil, 0
		run.stopMerging()
	case events.RunStopRequested:
		d.Stopping = true
	case events.RunMerged:
		if e.Tree != "" || e.Outside { // earlier builds recorded neither
			d.Merge = &RunMerge{e.MergeCommit, e.Tree, e.Base, e.Method, e.Outside, e.By, e.Untested}
		}
	}
}

// stopMerging ends an attempt to merge.
func (run *Run) stopMerging() {
	if run.Status == events.RunStatusMerging {
		run.Status = events.RunStatusAwaitingApproval
	}
}

// openJobs counts the jobs that are not over.
func (d *RunDetail) openJobs() (n int) {
	for _, j := range d.Jobs {
		if j.Status == "requested" {
			n++
		}
	}
	return n
}

// enter begins a stage. The stages after it become pending again.
func (run *Run) enter(e events.RunStageEntered, at time.Time) {
	if queued := &run.Detail.Stages[0]; queued.Status == "active" {
		queued.end("succeeded", at) // a slot became free
	}
	run.Stage, run.Status = run.Detail.stage(e.Stage), e.Stage.Status()
	if e.Stage == events.StageImplementing {
		run.Round = e.Attempt
	}
	entered := &run.Detail.Stages[run.Stage]
	*entered = RunStage{Name: entered.Name, Status: "active", Attempt: e.Attempt, StartedAt: &at}
	for i := run.Stage + 1; i < len(events.Stages()); i++ {
		run.Detail.Stages[i] = RunStage{Status: "pending", Attempt: run.Detail.Stages[i].Attempt}
	}
}

// resume resumes a run that waited for a decision.
func (run *Run) resume() {
	run.WaitsFor = ""
	if s := &run.Detail.Stages[run.Stage]; s.Status == "blocked" {
		s.Status = "active"
	}
	if run.Status == events.RunStatusNeedsInput {
		run.Status = events.StageAt(run.Stage).Status()
	}
}

// finish ends the run, its active stage, and the stages that it never reached.
func (run *Run) finish(status events.RunStatus, stage string, at time.Time) {
	run.Status, run.Active, run.FinishedAt, run.WaitsFor = status, false, &at, ""
	run.Detail.Lane, run.Detail.Stopping, run.Tidied = false, false, !run.Detail.Started
	for i := range run.Detail.Stages {
		switch s := &run.Detail.Stages[i]; s.Status {
		case "active", "blocked":
			s.end(stage, at.Truncate(time.Millisecond))
		case "pending":
			s.Status = "skipped"
		}
	}
}

func (s *RunStage) end(status string, at time.Time) { s.Status, s.FinishedAt = status, &at }
