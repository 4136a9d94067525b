// Package insights is the page of figures about the results of runs.
package insights

import (
	"context"
	"encoding/csv"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	return []page.Route{
		{Method: http.MethodGet, Path: "/w/{workspace}/insights", Show: show},
		{Method: http.MethodGet, Path: "/w/{workspace}/insights/export.csv", Send: export},
	}
}

// pageData is the content of the page. Selected is the figure in the large chart.
type pageData struct {
	client.InsightsAnswerBody
	Repos    []client.RepoRuns
	Selected client.Kpi
	Range    string
}

func load(v *page.Visit) (d pageData, err error) {
	d.Range = v.Query("range")
	if d.Range != "7d" && d.Range != "90d" {
		d.Range = "30d"
	}
	err = v.Load(func(ctx context.Context) (err error) {
		d.InsightsAnswerBody, err = client.Decode[client.InsightsAnswerBody](v.API.GetInsights(ctx, &client.GetInsightsParams{
			Range: client.Optional(client.GetInsightsParamsRange(d.Range)), Repo: client.Optional(v.Query("repo")),
		}))
		return err
	}, func(ctx context.Context) error {
		list, err := client.Decode[client.RepoList](v.API.ListRepos(ctx, nil))
		d.Repos = list.Items
		return err
	})
	for _, k := range d.Kpis {
		if d.Selected.Key == "" || string(k.Key) == v.Query("chart") || v.Query("chart") == "" && k.Key == client.CycleTime {
			d.Selected = k
		}
	}
	return d, err
}

func show(v *page.Visit) (page.Page, error) {
	d, err := load(v)
	return page.Page{Title: "Insights", NavEntry: "insights", Main: view(v, d)}, err
}

// export writes the figures of the page as CSV, one row per day.
func export(v *page.Visit, w http.ResponseWriter) error {
	d, err := load(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="insights.csv"`)
	_, err = w.Write(csvTable(d))
	return err
}

func csvTable(d pageData) []byte {
	var out strings.Builder
	w := csv.NewWriter(&out)
	head := []string{"date"}
	for _, k := range d.Kpis {
		head = append(head, string(k.Key)+" ("+string(k.Unit)+")", string(k.Key)+" before")
	}
	rows := [][]string{head}
	if len(d.Kpis) > 0 {
		for i, day := range d.Kpis[0].Series {
			row := []string{day.Date}
			for _, k := range d.Kpis {
				row = append(row, csvNumber(k.Series[i].Value), csvNumber(k.Series[i].Prior))
			}
			rows = append(rows, row)
		}
	}
	_ = w.WriteAll(rows) // writes to memory do not fail
	return []byte(out.String())
}

func csvNumber(value *float64) string {
	if value == nil {
		return ""
	}
	return strconv.FormatFloat(*value, 'f', -1, 64)
}

// kpiName returns the name of a figure.
func kpiName(key client.KpiKey) string {
	switch key {
	case client.AutonomousMergeRate:
		return "Autonomous merge rate"
	case client.MergedUntouchedRate:
		return "Merged untouched"
	case client.CycleTime:
		return "Cycle time"
	case client.CostPerMergedPr:
		return "Cost per merged PR"
	case client.HumanInterventions:
		return "Human interventions"
	}
	return string(key)
}

// emptyHint describes the run that gives a figure its first value.
func emptyHint(key client.KpiKey) string {
	switch key {
	case client.CycleTime, client.CostPerMergedPr, client.MergedUntouchedRate:
		return "The chart starts with the first merged run."
	}
	return "The chart starts with the first finished run."
}

// terms returns what a figure's two parts are called: what is measured, and of what. The second is "" for a count.
func terms(unit client.KpiUnit) (measured, of string) {
	switch unit {
	case client.Pct:
		return "Counted", "Out of"
	case client.Cents:
		return "Cost", "Divided by"
	case client.DurationMs:
		return "Measured", "Of"
	}
	return "Counted", ""
}

// formatValue formats a value in its unit, "—" for none.
func formatValue(unit client.KpiUnit, value *float64) string {
	if value == nil {
		return "—"
	}
	return formatAmount(unit, *value)
}

func formatAmount(unit client.KpiUnit, value float64) string {
	switch unit {
	case client.Pct:
		return strconv.FormatFloat(math.Round(value*10)/10, 'f', -1, 64) + "%"
	case client.DurationMs:
		return shortDuration(time.Duration(value) * time.Millisecond)
	case client.Cents:
		return kit.Cents(int64(math.Round(value)))
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}

// shortDuration formats a duration for a tile or a scale: "3h 12m".
func shortDuration(d time.Duration) string {
	large, small, name := time.Minute, time.Second, [2]string{"m", "s"}
	switch {
	case d >= 24*time.Hour:
		large, small, name = 24*time.Hour, time.Hour, [2]string{"d", "h"}
	case d >= time.Hour:
		large, small, name = time.Hour, time.Minute, [2]string{"h", "m"}
	case d < time.Minute:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	text := strconv.FormatInt(int64(d/large), 10) + name[0]
	if rest := d % large / small; rest > 0 {
		text += " " + strconv.FormatInt(int64(rest), 10) + name[1]
	}
	return text
}

// A change compares a figure with that of the previous window.
type change struct {
	icon, text string
	tone       string // "good", "bad" or ""
}

// changeOf returns the change of a figure; ok is false if there is nothing to compare.
func changeOf(k client.Kpi) (c change, ok bool) {
	if k.Value == nil || k.Prior == nil {
		return c, false
	}
	by := *k.Value - *k.Prior
	if by == 0 {
		return change{"minus", "unchanged", ""}, true
	}
	moreIsGood := k.Key == client.AutonomousMergeRate || k.Key == client.MergedUntouchedRate
	c.icon, c.tone = "arrow-down-right", "bad"
	if by > 0 {
		c.icon = "arrow-up-right"
	}
	if by > 0 == moreIsGood {
		c.tone = "good"
	}
	c.text = formatAmount(k.Unit, math.Abs(by))
	if k.Unit == client.Pct {
		c.text = strings.TrimSuffix(c.text, "%") + " pts"
	}
	return c, true
}

// direction describes the arrow to screen readers.
func direction(k client.Kpi) string {
	if *k.Value > *k.Prior {
		return "more than before"
	}
	return "less than before"
}

func formatDay(date string) string {
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return at.Format("2 Jan")
}
