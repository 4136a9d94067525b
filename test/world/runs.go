package world

import "svc/events"

// What the runs of tests keep: the branch that they merge into, its policy, and the job that they have to pass.
const (
	Base     = "b"
	Policy   = "p"
	Required = "test"
)

// Started returns the facts with which a run begins: its places and the base.
func Started(slot int) []events.Event {
	return []events.Event{
		events.RunStarted{Slot: slot, RepoSlot: slot},
		events.RunBaseRead{Branch: "main", Commit: Base, Policy: Policy, RequiredJobs: []string{Required}},
	}
}

// Analyzing returns the facts of a run until it analyzes its issue.
func Analyzing(slot int) []events.Event {
	return append(Started(slot), events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1})
}

// Implementing returns the facts of a run until it implements.
func Implementing(slot int) []events.Event {
	facts := append(Analyzing(slot), Worked(events.StageAnalyze, 1, "")...)
	facts = append(facts, events.RunStageEntered{Stage: events.StagePlan, Attempt: 1})
	facts = append(facts, Worked(events.StagePlan, 1, "")...)
	return append(facts, events.RunStageEntered{Stage: events.StageImplementing, Attempt: 1})
}

// Worked returns the facts with which an attempt of a stage before Merge succeeds. In Implementing it pushes head.
func Worked(s events.Stage, attempt int, head string) []events.Event {
	done := events.RunStageSucceeded{Stage: s, Attempt: attempt}
	switch s {
	case events.StageImplementing:
		return []events.Event{
			events.RunCommitsPushed{Head: head, Base: Base, Tree: "t" + head, By: events.PushedByLoop, Files: []events.FileChange{}},
			events.RunGuardrailsChecked{Head: head, Policy: Policy, Status: "clean", Checks: []events.Guardrail{}}, done,
		}
	case events.StageBuildFarm:
		job := NewID()
		return []events.Event{
			events.RunJobRequested{Job: job, Name: Required, Head: head, Purpose: events.JobRequired, Attempt: 1},
			events.RunJobSettled{Job: job, Status: string(events.JobStateSucceeded), ComputeMS: 1000}, done,
		}
	case events.StageSelfReview:
		return []events.Event{events.RunReviewed{Head: head, Verdict: "pass"}, done}
	}
	return []events.Event{done}
}

// ToApproval returns the facts of a run until it asks a person to approve head. Its build farm stage fails once.
func ToApproval(slot int, head string, decision events.ID) []events.Event {
	facts := Started(slot)
	for _, stage := range events.Stages()[1:] {
		facts = append(facts, events.RunStageEntered{Stage: stage, Attempt: 1})
		switch stage {
		case events.StageMerge:
		case events.StageBuildFarm:
			facts = append(facts, events.RunStageFailed{Stage: stage, Attempt: 1, Reason: "luck"}, events.RunStageEntered{Stage: stage, Attempt: 2})
			facts = append(facts, Worked(stage, 2, head)...)
		default:
			facts = append(facts, Worked(stage, 1, head)...)
		}
	}
	return append(facts, events.DecisionRaised{Decision: decision, About: events.MergeApproval, Question: "Merge it?", Head: head})
}

// Merging returns the facts of a run whose head is approved until the attempt to merge it, as a commit with its tree.
func Merging(head string) []events.Event {
	return []events.Event{
		events.RunLaneEntered{Branch: "main"},
		events.RunMergeCandidate{Head: head, Base: Base, Commit: "m" + head, Tree: "t" + head},
		events.RunMergeAttempted{Head: head, Commit: "m" + head},
	}
}

// Merged returns the facts of a run whose head is approved until its end.
func Merged(head string) []events.Event {
	return append(Merging(head), events.RunMerged{Head: head, MergeCommit: "m" + head, Tree: "t" + head, Base: Base})
}

// Cost returns a cost that was not recorded before.
func Cost(cents int64) events.RunCostRecorded {
	return events.RunCostRecorded{Cents: cents, Source: "compute", Quantity: 1, Key: NewID().String()}
}
