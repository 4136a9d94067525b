package events

// A Stage is a step of the loop that a run goes through, in the order below.
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

// stages lists the stages in the order of the loop, with the name shown for each and the
// status of a run in it.
var stages = []struct {
	stage  Stage
	label  string
	status RunStatus
}{
	{StageQueued, "Queued", RunStatusQueued},
	{StageAnalyze, "Analyze", RunStatusAnalyzing},
	{StagePlan, "Plan", RunStatusPlanning},
	{StageImplementing, "Implementing", RunStatusCoding},
	{StageBuildFarm, "Build farm", RunStatusBuilding},
	{StageSelfReview, "Self-review", RunStatusReviewing},
	{StageMerge, "Merge", RunStatusAwaitingApproval},
}

// Stages returns the stages in the order of the loop.
func Stages() (list []Stage) {
	for _, s := range stages {
		list = append(list, s.stage)
	}
	return list
}

// StageAt returns the stage at position i of the loop, "" if there is none.
func StageAt(i int) Stage {
	if i < 0 || i >= len(stages) {
		return ""
	}
	return stages[i].stage
}

// Index returns the position of s in the loop, from 0, or -1 if this build does not know
// the stage.
func (s Stage) Index() int {
	for i, stage := range stages {
		if stage.stage == s {
			return i
		}
	}
	return -1
}

// Label returns the name that is shown for s.
func (s Stage) Label() string {
	for _, known := range stages {
		if known.stage == s {
			return known.label
		}
	}
	return "Unknown"
}

// Status returns the status of a run in stage s.
func (s Stage) Status() RunStatus {
	if i := s.Index(); i >= 0 {
		return stages[i].status
	}
	return RunStatusUnknown
}
