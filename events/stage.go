package events

import "slices"

// A Stage is a step of the loop that a run goes through, in this order.
type Stage string

// The stages.
const (
	StageQueued       Stage = "queued"
	StageAnalyze      Stage = "analyze"
	StagePlan         Stage = "plan"
	StageImplementing Stage = "implementing"
	StageBuildFarm    Stage = "build_farm"
	StageSelfReview   Stage = "self_review"
	StageMerge        Stage = "merge"
)

// stages says, in the order of the loop, what each stage is called and the
// status of a run that works on it.
var stages = []struct {
	stage  Stage
	label  string
	status RunStatus
}{
	{StageQueued, "Queued", RunInQueue},
	{StageAnalyze, "Analyze", RunAnalyzing},
	{StagePlan, "Plan", RunPlanning},
	{StageImplementing, "Implementing", RunCoding},
	{StageBuildFarm, "Build farm", RunBuilding},
	{StageSelfReview, "Self-review", RunReviewing},
	{StageMerge, "Merge", RunAwaitingApproval},
}

// Stages returns the stages in the order of the loop.
func Stages() (list []Stage) {
	for _, s := range stages {
		list = append(list, s.stage)
	}
	return list
}

// StageAt returns the stage of a place in the loop, "" if this build knows none there.
func StageAt(i int) Stage {
	if i < 0 || i >= len(stages) {
		return ""
	}
	return stages[i].stage
}

// Index returns the place of s in the loop, from 0, or -1 if this build knows no
// such stage: a newer one may.
func (s Stage) Index() int {
	return slices.Index(Stages(), s)
}

// Label returns the name of s that people see.
func (s Stage) Label() string {
	if i := s.Index(); i >= 0 {
		return stages[i].label
	}
	return "Unknown"
}

// Status returns the status of a run that works on s.
func (s Stage) Status() RunStatus {
	if i := s.Index(); i >= 0 {
		return stages[i].status
	}
	return RunInUnknownStage
}
