package runs

import (
	"context"
	"math"
	"time"

	"svc/events"
	"svc/fault"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/runviews"
)

func (s *Server) insightRoutes() door.Section {
	return door.Section{Tag: "Insights", About: "Metrics of the loop's performance.", Routes: []door.Route{
		door.Query(s.getInsights, door.Route{
			Method: "GET", Path: "/insights", Guard: door.AnyMemberOrReadToken, Views: []string{"outcomes", "runs"},
			ID: "getInsights", Summary: "Get insights",
			Text:          "Returns five metrics for the window and the preceding period, each with its methodology and daily values.",
			AnswerExample: exampleInsights(),
		}),
	}}
}

type insightsQuery struct {
	Range string `query:"range" enum:"7d,30d,90d" default:"30d" doc:"Number of UTC days, ending today."`
	Repo  string `query:"repo" format:"uuid" doc:"Only runs of this repository."`
}

type insightsAnswer struct {
	Body struct {
		Window schema.Dates `json:"window"`
		Prior  schema.Dates `json:"prior" doc:"The preceding period of the same length."`
		KPIs   []kpi        `json:"kpis" nullable:"false"`

		Estimates estimatesHeld `json:"estimates"`
	}
}

type kpi struct {
	Key         string       `json:"key" enum:"autonomous_merge_rate,merged_untouched_rate,cycle_time,cost_per_merged_pr,human_interventions"`
	Unit        string       `json:"unit" enum:"pct,duration_ms,cents,count"`
	Value       *float64     `json:"value" nullable:"true" doc:"null if there is no data." example:"66.7"`
	Prior       *float64     `json:"prior" nullable:"true" doc:"The value for the preceding period." example:"50"`
	Sample      int          `json:"sample" doc:"Number of runs that the value is computed from; for human_interventions, of those that had any."`
	PriorSample int          `json:"priorSample"`
	Breakdown   *breakdown   `json:"breakdown,omitempty" doc:"For cycle_time only: where the time is spent."`
	Series      []dayValue   `json:"series" nullable:"false" doc:"One value for each day of the window, in order. The last is today, which is incomplete."`
	Methodology *methodology `json:"methodology"`
}

// A dayValue is the value of a KPI for a single day.
type dayValue struct {
	Date  string   `json:"date" format:"date" example:"2026-11-21"`
	Value *float64 `json:"value" nullable:"true" doc:"The value for this day only; null if there is no data." example:"50"`
	Prior *float64 `json:"prior" nullable:"true" doc:"The value for the corresponding day of the preceding period." example:"66.7"`
}

// A breakdown has a median for each part. They do not add up to the median of the whole.
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
			return nil, fault.Field("repo", "must be an id")
		}
		repo = &id
	}
	from, days := schema.DaysOf(in.Range, s.Now())
	found, err := s.Insights.Get(ctx, door.CallerOf(ctx).Workspace, repo, from, days)
	if err != nil {
		return nil, err
	}
	return newInsights(found, from), nil
}

// newInsights returns the answer for the counts of the window that begins at from and of the one before.
func newInsights(r runviews.Report, from time.Time) *insightsAnswer {
	days := len(r.ByDay)
	day := func(n int) string { return from.AddDate(0, 0, n).Format(time.DateOnly) }
	out := &insightsAnswer{}
	out.Body.Window = schema.Dates{From: day(0), To: day(days - 1)}
	out.Body.Prior = schema.Dates{From: day(-days), To: day(-1)}
	for _, k := range kpis {
		one := kpi{Key: k.key, Unit: k.unit, Methodology: &k.methodology, Series: make([]dayValue, days)}
		one.Value, one.Sample = k.compute(r.Window)
		one.Prior, one.PriorSample = k.compute(r.Prior)
		for i := range one.Series {
			one.Series[i].Date = day(i)
			one.Series[i].Value, _ = k.compute(r.ByDay[i])
			one.Series[i].Prior, _ = k.compute(r.PriorByDay[i])
		}
		if k.key == "cycle_time" && r.Window.Cycle != nil {
			c := r.Window.Cycle
			one.Breakdown = &breakdown{rounded(c.Working), rounded(c.Person), rounded(c.Farm)}
		}
		out.Body.KPIs = append(out.Body.KPIs, one)
	}
	out.Body.Estimates = newEstimatesHeld(r.Held, r.Estimated)
	return out
}

// rounded returns x rounded to the nearest integer, halves up.
func rounded(x float64) int64 { return int64(math.Floor(x + 0.5)) }

// percent returns 100·part/whole rounded to one decimal, halves up, or nil if whole is 0. It uses integers
// because decimals such as 12.25 have no exact binary form.
func percent(part, whole int) (*float64, int) {
	if whole == 0 {
		return nil, 0
	}
	tenths := float64((2000*part + whole) / (2 * whole))
	value := tenths / 10
	return &value, whole
}

func autonomousMergeRate(c runviews.Count) (*float64, int) { return percent(c.Autonomous, c.Runs) }

func mergedUntouchedRate(c runviews.Count) (*float64, int) { return percent(c.Untouched, c.Merged) }

func cycleTime(c runviews.Count) (*float64, int) {
	if c.Cycle == nil {
		return nil, 0
	}
	value := float64(rounded(c.Cycle.Whole))
	return &value, c.Merged
}

func costPerMergedPR(c runviews.Count) (*float64, int) {
	if c.Merged == 0 {
		return nil, 0
	}
	merged := int64(c.Merged)
	value := float64((2*c.CostCents + merged) / (2 * merged))
	return &value, c.Merged
}

func humanInterventions(c runviews.Count) (*float64, int) {
	value := float64(c.Interventions)
	return &value, c.Helped
}

// exampleInsights returns the insights of a week.
func exampleInsights() any {
	on := func(runs, merged, autonomous int, cents int64, interventions int, cycle float64) runviews.Count {
		c := runviews.Count{
			Runs: runs, Merged: merged, Autonomous: autonomous, Untouched: merged, CostCents: cents,
			Interventions: interventions, Helped: min(interventions, runs),
		}
		if merged > 0 {
			c.Cycle = &runviews.Durations{Whole: cycle}
		}
		return c
	}
	r := runviews.Report{
		Window: on(9, 6, 5, 804, 4, 0), Prior: on(8, 4, 3, 640, 6, 7_200_000),
		ByDay: []runviews.Count{
			on(1, 1, 1, 120, 0, 3_000_000), on(2, 1, 1, 200, 1, 4_200_000), {}, on(1, 1, 1, 90, 0, 5_000_000),
			on(2, 1, 1, 160, 1, 5_800_000), on(1, 1, 0, 84, 1, 6_600_000), on(2, 1, 1, 150, 1, 7_200_000),
		},
		PriorByDay: []runviews.Count{
			on(1, 1, 1, 80, 1, 6_000_000), on(1, 0, 0, 40, 0, 0), on(2, 1, 1, 150, 1, 7_000_000), {},
			on(1, 0, 0, 30, 1, 0), on(2, 1, 0, 220, 2, 7_400_000), on(1, 1, 1, 120, 1, 9_000_000),
		},
	}
	r.Window.Cycle = &runviews.Durations{Whole: 5_400_000, Working: 2_700_000, Person: 1_800_000, Farm: 600_000}
	return newInsights(r, time.Date(2026, time.November, 14, 0, 0, 0, 0, time.UTC)).Body
}
