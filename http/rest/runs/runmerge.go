package runs

import (
	"svc/events"
	"svc/projections/runviews"
)

// A runMerge is how a run merges, or was merged.
type runMerge struct {
	_         struct{} `nullable:"true"`
	Lane      bool     `json:"lane" doc:"Whether it is the run's turn to merge into its branch."`
	Candidate string   `json:"candidateSha" doc:"The commit that merging the head would give; empty if none was made." example:"4be7a90c15d2f8634a1b9c0e57d3862f0e94ab71"`
	Postponed int      `json:"postponed" doc:"Number of attempts that did not merge, because the branch had moved or the code host refused."`
	Stopping  bool     `json:"stopping" doc:"Whether somebody cancelled the run while it was merging: it stops after the attempt."`
	Commit    string   `json:"commit" doc:"The merge commit; empty until the run is merged."`
	Tree      string   `json:"tree" doc:"Its tree."`
	Base      string   `json:"base" doc:"Its first parent."`
	Method    string   `json:"method" enum:"merge,squash," doc:"Empty if it is not known."`
	Outside   bool     `json:"outside" doc:"Whether somebody merged it at the code host."`
	By        string   `json:"by" doc:"Who did, as the code host says." example:"octocat"`
	Untested  bool     `json:"untested" doc:"Whether the tree is not the one that passed the required jobs."`
}

func newRunMerge(r runviews.Run) *runMerge {
	d := r.Detail
	m := runMerge{Lane: d.Lane, Postponed: d.Postponed, Stopping: d.Stopping}
	if c := d.Candidate; c != nil {
		m.Candidate = c.Commit
	}
	if done := d.Merge; done != nil {
		m.Commit, m.Tree, m.Base, m.Method = done.Commit, done.Tree, done.Base, done.Method
		m.Outside, m.By, m.Untested = done.Outside, done.By, done.Untested
	}
	if m == (runMerge{}) {
		return nil
	}
	return &m
}

// A runPlan is what a run expects to change.
type runPlan struct {
	Files []string `json:"files" nullable:"false" doc:"Empty if the plan names none."`
	Risk  string   `json:"risk" doc:"Empty if the plan says nothing of it." example:"low"`
}

func newRunPlan(d runviews.RunDetail) runPlan {
	p := runPlan{Files: []string{}}
	if d.Plan != nil {
		p.Files, p.Risk = append(p.Files, d.Plan.Files...), d.Plan.Risk
	}
	return p
}

type runTidied struct {
	_           struct{} `nullable:"true"`
	PullRequest string   `json:"pullRequest" enum:"merged,closed,left,none"`
	Branch      string   `json:"branch" enum:"deleted,left,none" doc:"left: somebody else pushed to it."`
}

func newRunTidied(d runviews.RunDetail) *runTidied {
	if d.Tidied == nil {
		return nil
	}
	return &runTidied{PullRequest: d.Tidied.PullRequest, Branch: d.Tidied.Branch}
}

type runEnd struct {
	_      struct{}        `nullable:"true"`
	Reason string          `json:"reason" doc:"Empty if nobody gave one." example:"The job test failed with exit code 1."`
	Code   events.FailCode `json:"code,omitempty" doc:"Of a run that failed, such as no_patch, no_change, rounds, budget, guardrails, host_refused, infrastructure. Other codes may be added." example:"rounds"`
}

func newRunEnd(d runviews.RunDetail) *runEnd {
	if d.End == nil {
		return nil
	}
	return &runEnd{Reason: d.End.Reason, Code: d.End.Code}
}

func newRunJob(j runviews.RunJob) runJob {
	return runJob{
		ID: j.ID.String(), Name: j.Name, Status: j.Status, ComputeMS: j.ComputeMS,
		Purpose: j.Purpose, Attempt: max(j.Attempt, 1), Reason: j.Reason, ExitCode: j.ExitCode,
	}
}
