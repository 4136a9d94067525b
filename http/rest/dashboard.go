package rest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/events"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/runs"
	"svc/http/rest/schema"
	"svc/projections"
	"svc/projections/farmviews"
	"svc/projections/runviews"
)

func (s *Server) dashboardRoutes() door.Section {
	return door.Section{Tag: "Dashboard", About: "A summary of the workspace that is cheap to poll.", Routes: []door.Route{
		door.Query(s.getDashboard, door.Route{
			Method: "GET", Path: "/dashboard", Guard: door.AnyMemberOrReadToken, Views: []string{"runs", "decisions"},
			ID: "getDashboard", Summary: "Get the dashboard",
			Text: "Returns a summary of the workspace for clients that poll. Send the `ETag` of the last response as `If-None-Match`, and " +
				"wait `X-Svc-Poll-After` seconds between requests. While nothing has changed, the response is 304 without a body.",
			AnswerExample: newDashboard(exampleOverview, exampleSystem, schema.ExampleAt(0)),
			Responses:     map[string]*huma.Response{"304": describeUnchanged()},
		}),
	}}
}

type dashboardQuery struct {
	IfNoneMatch string `header:"If-None-Match" doc:"The ETags of earlier responses, or *."`
}

type dashboardAnswer struct {
	Status       int
	ETag         string `header:"ETag"`
	PollAfter    int    `header:"X-Svc-Poll-After" doc:"Seconds to wait before the next request."`
	CacheControl string `header:"Cache-Control"`
	Body         *dashboard
}

type dashboard struct {
	Head   sentence   `json:"head"`
	Runs   activeRuns `json:"runs"`
	Inbox  waiting    `json:"inbox"`
	Farm   Farm       `json:"farm"`
	System system     `json:"system"`
	Recent []runs.Run `json:"recent" nullable:"false" doc:"The most recently updated runs, newest first."`
}

type sentence struct {
	Sentence string `json:"sentence" example:"11 runs are active. 3 wait for a person."`
}

type activeRuns struct {
	Active  int               `json:"active"`
	ByStage []runs.StageCount `json:"byStage" nullable:"false"`
}

type waiting struct {
	Waiting  int                `json:"waiting" doc:"Decisions that wait for a person."`
	OldestAt *openapi.Timestamp `json:"oldestAt" nullable:"true" doc:"When the oldest of them was raised; null if there is none."`
	ByKind   []kindWaiting      `json:"byKind" nullable:"false" doc:"Counts by kind, including kinds with none."`
}

type kindWaiting struct {
	KindID events.DecisionKind `json:"kindId" enum:"fact_review,merge_approval,protected_path_allow_once"`
	Count  int                 `json:"count" doc:"Waiting decisions of this kind."`
}

// Farm is the build farm at a glance.
type Farm struct {
	On        bool   `json:"on" doc:"Whether the build farm is enabled."`
	PublicURL string `json:"publicUrl" doc:"The address of the gateway for runners; empty if it is not set." example:"https://farm.example"`

	Online   int `json:"online" doc:"Connected runners that accept jobs."`
	Draining int `json:"draining" doc:"Connected runners that accept no new jobs."`
	Slots    int `json:"slots" doc:"Jobs that the online runners can run at once."`
	Busy     int `json:"busy" doc:"Jobs assigned to runners."`
	Queued   int `json:"queued" doc:"Jobs that wait for a runner."`
}

// recentRuns is the number of runs that the dashboard lists.
const recentRuns = 10

// getDashboard answers 304 after reading nothing but the position of the views, as long as that and
// the dependencies are unchanged.
func (s *Server) getDashboard(ctx context.Context, in *dashboardQuery) (*dashboardAnswer, error) {
	workspace := door.CallerOf(ctx).Workspace
	position, err := s.dashboardPosition(ctx)
	if err != nil {
		return nil, err
	}
	health, now := s.health.latest(ctx), s.Now()
	setup := fmt.Sprintln(health.text, s.BuildFarm.On, s.BuildFarm.PublicURL)
	name := func(until time.Time) string { return etag(workspace, position, setup, until) }
	out := &dashboardAnswer{Status: http.StatusNotModified, PollAfter: s.pollAfter(), CacheControl: "private, no-cache"}
	if out.ETag = matchETag(in.IfNoneMatch, now, name); out.ETag != "" {
		return out, nil
	}
	found, err := s.Lists.Dashboard.Get(ctx, workspace, recentRuns, now)
	if err != nil {
		return nil, err
	}
	var until time.Time
	if next := found.Stages.Next; next != nil {
		until = *next
	}
	position = found.Position // another server may have answered above
	out.Status, out.ETag, out.Body = http.StatusOK, name(until), newDashboard(found, health.system, now)
	out.Body.Farm.On, out.Body.Farm.PublicURL = s.BuildFarm.On, s.BuildFarm.PublicURL
	if middleware.MatchesETag(in.IfNoneMatch, out.ETag) { // as * does
		out.Status, out.Body = http.StatusNotModified, nil
	}
	return out, nil
}

func (s *Server) dashboardPosition(ctx context.Context) (string, error) {
	c := door.CallerOf(ctx)
	if c.Position == 0 {
		position, _, err := s.positions.Find(ctx, c.Workspace, s.Lists.Dashboard.Positions)
		return position, err
	}
	found, err := s.Lists.Dashboard.Positions(ctx, []events.ID{c.Workspace}) // not shared with requests that require less
	return found[c.Workspace], err
}

func newDashboard(o projections.Overview, system system, now time.Time) *dashboard {
	d := &dashboard{
		System: system, Inbox: newWaiting(o.Waiting), Recent: []runs.Run{}, Runs: activeRuns{ByStage: runs.NewStageCounts(o.Stages)},
		Farm: Farm{
			Online: o.Slots.Online, Draining: o.Slots.Draining, Slots: o.Slots.Total, Busy: o.Slots.Busy, Queued: o.Queued,
		},
	}
	for _, c := range d.Runs.ByStage {
		d.Runs.Active += c.Count
	}
	d.Head.Sentence = dashboardSentence(d.Runs.Active, d.Inbox.Waiting)
	for _, r := range o.Recent {
		d.Recent = append(d.Recent, runs.NewRunAt(now)(r))
	}
	return d
}

func newWaiting(c runviews.WaitingCounts) waiting {
	w := waiting{Waiting: c.Total(), OldestAt: openapi.FormatOptionalTime(c.Oldest), ByKind: []kindWaiting{}}
	for _, kind := range runs.DecisionKinds {
		w.ByKind = append(w.ByKind, kindWaiting{kind, c.ByKind[kind]})
	}
	return w
}

func dashboardSentence(active, waiting int) string {
	text := fmt.Sprintf("%d runs are active.", active)
	switch active {
	case 0:
		return "No run is active."
	case 1:
		text = "1 run is active."
	}
	switch waiting {
	case 0:
		return text
	case 1:
		return text + " 1 waits for a person."
	}
	return fmt.Sprintf("%s %d wait for a person.", text, waiting)
}

// Seconds that a client waits between requests: more when the service is short of database
// connections.
const (
	pollNormally = 15
	pollBusy     = 30
	pollFull     = 60
)

func (s *Server) pollAfter() int {
	switch load := s.Load(); {
	case load >= 0.95:
		return pollFull
	case load >= 0.75:
		return pollBusy
	}
	return pollNormally
}

// describeUnchanged describes the response to a client that has the current dashboard.
func describeUnchanged() *huma.Response {
	return &huma.Response{Description: "Not modified since the response with that ETag.", Headers: map[string]*huma.Param{
		"ETag":             {Schema: &huma.Schema{Type: huma.TypeString}},
		"X-Svc-Poll-After": {Schema: &huma.Schema{Type: huma.TypeInteger}},
		"Cache-Control":    {Schema: &huma.Schema{Type: huma.TypeString}},
	}}
}

var exampleOverview = projections.Overview{
	Stages: runs.ExampleStages, Waiting: runs.ExampleWaiting, Recent: []runviews.Run{runs.ExampleRun()},
	Slots: farmviews.RunnerSlots{Online: 2, Total: 6, Busy: 1}, Queued: 3,
}

var exampleSystem = newHealthSnapshot([]systemDependency{
	{"database", "up", "PostgreSQL 18.1, schema up to date.", 2}, {"engine", "up", "", 3},
}, schema.ExampleAt(0)).system
