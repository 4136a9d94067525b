package runs

import (
	"math"

	"svc/events"
	"svc/projections/runviews"
)

// A runEstimate is what runs like this one had cost by then.
type runEstimate struct {
	When      events.EstimateMoment `json:"when" enum:"queued,planned,pushed" doc:"What was known: the repository, the files to change, or the lines that changed."`
	Size      string                `json:"size" doc:"small, medium or large; empty if nothing was known of the change." example:"small"`
	CostCents *spread               `json:"costCents" doc:"Null with fewer than five runs whose cost is known."`
	WorkMS    *spread               `json:"workMs" doc:"Time without waiting for people; null with fewer than five merged runs."`
	Merged    int                   `json:"merged" doc:"How many of the runs were merged."`
	Runs      []string              `json:"runs" nullable:"false" doc:"Ids of the runs that the numbers are based on, the most similar first."`
}

// A spread says what half and four fifths of the runs stayed below.
type spread struct {
	_   struct{} `nullable:"true"`
	P50 int64    `json:"p50"`
	P80 int64    `json:"p80"`
}

func newRunEstimates(list []runviews.RunEstimate) []runEstimate {
	out := make([]runEstimate, len(list))
	for i, e := range list {
		out[i] = runEstimate{e.When, e.Size, newSpread(e.Cents), newSpread(e.WorkMS), e.Merged, []string{}}
		for _, id := range e.Basis {
			out[i].Runs = append(out[i].Runs, id.String())
		}
	}
	return out
}

func newSpread(s *events.EstimateSpread) *spread {
	if s == nil {
		return nil
	}
	return &spread{P50: s.P50, P80: s.P80}
}

// estimatesHeld says how often runs took no longer than their estimates said that four of five would.
type estimatesHeld struct {
	Runs int      `json:"runs" doc:"Merged runs of the window that had an estimate when they were queued, of the last thousand that ended." example:"40"`
	Held int      `json:"held" doc:"Those that worked no longer than p80." example:"33"`
	Low  *float64 `json:"low" nullable:"true" doc:"Lower end of the share, in percent: the Wilson interval of 95 %. Null without runs." example:"68.1"`
	High *float64 `json:"high" nullable:"true" doc:"Upper end." example:"91.3"`
}

func newEstimatesHeld(held, runs int) estimatesHeld {
	out := estimatesHeld{Runs: runs, Held: held}
	if runs > 0 {
		const z = 1.959964 // 97.5th percentile of the normal distribution
		n, share := float64(runs), float64(held)/float64(runs)
		middle, reach := share+z*z/(2*n), z*math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
		percent := func(x float64) *float64 { return new(math.Round(1000*x/(1+z*z/n)) / 10) }
		out.Low, out.High = percent(middle-reach), percent(middle+reach)
	}
	return out
}
