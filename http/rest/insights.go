package rest

import (
	"context"
	"math"
	"time"

	"svc/events"
	"svc/projections"
)

func (s *Server) insightRoutes() section {
	return section{tag: "Insights", about: "How well the loop does.", routes: []route{
		query(s.getInsights, route{
			method: "GET", path: "/insights", guard: readers, views: []string{"outcomes"},
			id: "getInsights", summary: "How well the loop does",
			text:     "Five numbers over the last days and over the days before, each with how it is computed.",
			answered: exampleInsights(),
		}),
	}}
}

type insightsQuery struct {
	Range string `query:"range" enum:"7d,30d,90d" default:"30d" doc:"So many whole UTC days, ending today."`
	Repo  string `query:"repo" format:"uuid" doc:"Only runs of this repository."`
}

var insightDays = map[string]int{"7d": 7, "30d": 30, "90d": 90}

type insightsAnswer struct {
	Body struct {
		Window dates `json:"window"`
		Prior  dates `json:"prior" doc:"The days before, as many."`
		KPIs   []kpi `json:"kpis" nullable:"false"`
	}
}

// dates are UTC days, both included.
type dates struct {
	From string `json:"from" format:"date" example:"2026-10-23"`
	To   string `json:"to" format:"date" example:"2026-11-21"`
}

type kpi struct {
	Key         string       `json:"key" enum:"autonomous_merge_rate,merged_untouched_rate,cycle_time,cost_per_merged_pr,human_interventions"`
	Unit        string       `json:"unit" enum:"pct,duration_ms,cents,count"`
	Value       *float64     `json:"value" nullable:"true" doc:"null where there is nothing to compute it from." example:"66.7"`
	Prior       *float64     `json:"prior" nullable:"true" doc:"The value of the days before." example:"50"`
	Sample      int          `json:"sample" doc:"How many runs the value is computed from."`
	PriorSample int          `json:"priorSample"`
	Breakdown   *breakdown   `json:"breakdown,omitempty" doc:"Of the cycle time: what it is spent on."`
	Methodology *methodology `json:"methodology"`
}

// A breakdown has medians of its own, which do not add up to that of the whole.
type breakdown struct {
	WorkingMS int64 `json:"workingMs"`
	PersonMS  int64 `json:"personMs" doc:"Waiting for a person."`
	FarmMS    int64 `json:"farmMs" doc:"Waiting for the build farm."`
}

func (s *Server) getInsights(ctx context.Context, in *insightsQuery) (*insightsAnswer, error) {
	var repo *events.ID
	if in.Repo != "" {
		id, err := events.ParseID(in.Repo)
		if err != nil {
			return nil, invalid("repo", "must be an id")
		}
		repo = &id
	}
	const day = 24 * time.Hour
	days := time.Duration(insightDays[in.Range])
	to := s.now().UTC().Truncate(day).Add(day)
	from := to.Add(-days * day)
	window, prior, err := s.lists.Insights.Get(ctx, callerOf(ctx).workspace, repo, from, to)
	if err != nil {
		return nil, err
	}
	return newInsights(window, prior, from, to), nil
}

// newInsights shows what was counted in a window and in the one before it.
func newInsights(window, prior projections.Count, from, to time.Time) *insightsAnswer {
	day := func(at time.Time) string { return at.Format(time.DateOnly) }
	out := &insightsAnswer{}
	out.Body.Window = dates{day(from), day(to.AddDate(0, 0, -1))}
	out.Body.Prior = dates{day(from.Add(from.Sub(to))), day(from.AddDate(0, 0, -1))}
	for _, k := range kpis {
		one := kpi{Key: k.key, Unit: k.unit, Methodology: &k.methodology}
		one.Value, one.Sample = k.of(window)
		one.Prior, one.PriorSample = k.of(prior)
		if k.key == "cycle_time" && window.Cycle != nil {
			c := window.Cycle
			one.Breakdown = &breakdown{rounded(c.Working), rounded(c.Person), rounded(c.Farm)}
		}
		out.Body.KPIs = append(out.Body.KPIs, one)
	}
	return out
}

// rounded is x to the nearest whole number, halves up.
func rounded(x float64) int64 { return int64(math.Floor(x + 0.5)) }

// percent returns 100·part/whole with one decimal, halves up. It is computed
// in whole numbers: 12.25 % has no exact binary form.
func percent(part, whole int) (*float64, int) {
	if whole == 0 {
		return nil, 0
	}
	tenths := float64((2000*part + whole) / (2 * whole))
	value := tenths / 10
	return &value, whole
}

func autonomousMergeRate(c projections.Count) (*float64, int) { return percent(c.Autonomous, c.Runs) }

func mergedUntouchedRate(c projections.Count) (*float64, int) { return percent(c.Untouched, c.Merged) }

func cycleTime(c projections.Count) (*float64, int) {
	if c.Cycle == nil {
		return nil, 0
	}
	value := float64(rounded(c.Cycle.Whole))
	return &value, c.Merged
}

func costPerMergedPR(c projections.Count) (*float64, int) {
	if c.Merged == 0 {
		return nil, 0
	}
	merged := int64(c.Merged)
	value := float64((2*c.CostCents + merged) / (2 * merged))
	return &value, c.Merged
}

func humanInterventions(c projections.Count) (*float64, int) {
	value := float64(c.Interventions)
	return &value, c.Interventions
}

func exampleInsights() any {
	return newInsights(
		projections.Count{Runs: 9, Merged: 6, Autonomous: 5, Untouched: 6, CostCents: 804, Interventions: 4,
			Cycle: &projections.Durations{Whole: 5_400_000, Working: 2_700_000, Person: 1_800_000, Farm: 600_000}},
		projections.Count{Runs: 8, Merged: 4, Autonomous: 3, Untouched: 4, CostCents: 640, Interventions: 6,
			Cycle: &projections.Durations{Whole: 7_200_000, Working: 3_000_000, Person: 3_600_000, Farm: 540_000}},
		time.Date(2026, time.October, 22, 0, 0, 0, 0, time.UTC), time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC),
	).Body
}
