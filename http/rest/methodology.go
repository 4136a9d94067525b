package rest

import "svc/projections"

// A methodology says how a number comes about, so that nobody has to guess.
type methodology struct {
	Version     int      `json:"version"`
	Summary     string   `json:"summary" example:"How many of the merged runs were merged as the loop wrote them."`
	Numerator   string   `json:"numerator" example:"Merged runs to whose branch no person pushed."`
	Denominator string   `json:"denominator" example:"Merged runs."`
	Attribution string   `json:"attribution" example:"A run counts on the UTC day on which it ended."`
	Excludes    []string `json:"excludes" nullable:"false" example:"[\"runs that were cancelled as duplicates\"]"`
	Rounding    string   `json:"rounding" example:"one decimal, halves up"`
	Empty       string   `json:"empty" doc:"What value is where there is nothing to compute it from." example:"null"`
}

const (
	attributed = "A run counts on the UTC day on which it ended, by the time at which its end was recorded. The window ends today, " +
		"and today is not over: the days before are complete. Nothing that happens later changes a day that is over."
	noWork      = "runs that were cancelled before Implementing"
	duplicates  = "runs that were cancelled as duplicates"
	onePlace    = "one decimal, halves up"
	wholeNumber = "to whole numbers, halves up"
)

// kpis are the numbers, in the order in which they are shown.
var kpis = []struct {
	key, unit   string
	of          func(projections.Count) (value *float64, sample int)
	methodology methodology
}{
	{"autonomous_merge_rate", "pct", autonomousMergeRate, methodology{
		Version: 1, Summary: "How many of the runs that ended were merged without a person's help.",
		Numerator: "Merged runs in which no person had to help. To approve the merge is no help; " +
			"to answer a question, to ask for changes, to push to the branch and to restart is.",
		Denominator: "All runs that ended, also those that failed.",
		Attribution: attributed, Excludes: []string{noWork, duplicates}, Rounding: onePlace, Empty: "null",
	}},
	{"merged_untouched_rate", "pct", mergedUntouchedRate, methodology{
		Version: 1, Summary: "How many of the merged runs were merged as the loop wrote them.",
		Numerator: "Merged runs to whose branch no person pushed.", Denominator: "Merged runs.",
		Attribution: attributed, Excludes: []string{}, Rounding: onePlace, Empty: "null",
	}},
	{"cycle_time", "duration_ms", cycleTime, methodology{
		Version: 1, Summary: "How long a merged run took, in the middle: half of them were quicker.",
		Numerator:   "The median of the time from the queue to the merge, with all waiting. The parts of the breakdown are medians of their own.",
		Denominator: "Merged runs.",
		Attribution: attributed, Excludes: []string{}, Rounding: "to whole milliseconds, halves up", Empty: "null",
	}},
	{"cost_per_merged_pr", "cents", costPerMergedPR, methodology{
		Version: 1, Summary: "What a merged pull request costs, with what was spent on runs that came to nothing.",
		Numerator:   "The cost of all runs that ended, as far as it was recorded by the end of that day.",
		Denominator: "Merged runs.",
		Attribution: attributed, Excludes: []string{noWork, duplicates}, Rounding: wholeNumber, Empty: "null",
	}},
	{"human_interventions", "count", humanInterventions, methodology{
		Version: 1, Summary: "How often a person had to help.",
		Numerator:   "Interventions on any run, also on one that still moves. Pushes of one person to one run count once in ten minutes.",
		Denominator: "None: it is a count.",
		Attribution: "An intervention counts on the UTC day on which it was recorded.", Excludes: []string{"approvals of merges"},
		Rounding: "none", Empty: "0",
	}},
}
