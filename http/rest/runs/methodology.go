package runs

import (
	"svc/projections/runviews"
)

// A methodology documents how a KPI is computed.
type methodology struct {
	Version     int      `json:"version"`
	Summary     string   `json:"summary" example:"The share of merged runs that were merged as the loop wrote them."`
	Numerator   string   `json:"numerator" example:"Merged runs to whose branch no person pushed."`
	Denominator string   `json:"denominator" example:"Merged runs."`
	Attribution string   `json:"attribution" example:"A run counts on the UTC day on which it ended."`
	Excludes    []string `json:"excludes" nullable:"false" example:"[\"runs that were cancelled as duplicates\"]"`
	Rounding    string   `json:"rounding" example:"one decimal, halves up"`
	Empty       string   `json:"empty" doc:"The value if there is no data." example:"null"`
}

const (
	attributed = "A run counts on the UTC day on which its end was recorded. The window ends today, which is incomplete. " +
		"A past day never changes."
	noWork      = "runs that were cancelled before Implementing"
	duplicates  = "runs that were cancelled as duplicates"
	onePlace    = "one decimal, halves up"
	wholeNumber = "to whole numbers, halves up"
)

// kpis are the KPIs in the order of the answer.
var kpis = []struct {
	key, unit   string
	compute     func(runviews.Count) (value *float64, sample int)
	methodology methodology
}{
	{"autonomous_merge_rate", "pct", autonomousMergeRate, methodology{
		Version: 1, Summary: "The share of ended runs that were merged without a person's help.",
		Numerator: "Merged runs without help from a person. Approving the merge does not count as help; " +
			"answering a question, requesting changes, pushing to the branch and restarting do.",
		Denominator: "All runs that ended, including failed ones.",
		Attribution: attributed, Excludes: []string{noWork, duplicates}, Rounding: onePlace, Empty: "null",
	}},
	{"merged_untouched_rate", "pct", mergedUntouchedRate, methodology{
		Version: 1, Summary: "The share of merged runs that were merged as the loop wrote them.",
		Numerator: "Merged runs to whose branch no person pushed.", Denominator: "Merged runs.",
		Attribution: attributed, Excludes: []string{}, Rounding: onePlace, Empty: "null",
	}},
	{"cycle_time", "duration_ms", cycleTime, methodology{
		Version: 1, Summary: "The median time from the queue to the merge.",
		Numerator:   "The median time from the queue to the merge, including all waiting. Each part of the breakdown is a separate median.",
		Denominator: "Merged runs.",
		Attribution: attributed, Excludes: []string{}, Rounding: "to whole milliseconds, halves up", Empty: "null",
	}},
	{"cost_per_merged_pr", "cents", costPerMergedPR, methodology{
		Version: 1, Summary: "The cost of a merged pull request, including the cost of runs that were not merged.",
		Numerator:   "The cost of all runs that ended, as recorded by the end of that day.",
		Denominator: "Merged runs.",
		Attribution: attributed, Excludes: []string{noWork, duplicates}, Rounding: wholeNumber, Empty: "null",
	}},
	{"human_interventions", "count", humanInterventions, methodology{
		Version: 1, Summary: "The number of times a person had to help.",
		Numerator:   "Interventions on any run, including active ones. Pushes by the same person to the same run count once in ten minutes.",
		Denominator: "None: it is a count.",
		Attribution: "An intervention counts on the UTC day on which it was recorded.", Excludes: []string{"approvals of merges"},
		Rounding: "none", Empty: "0",
	}},
}
