package rest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"svc/events"
	"svc/projections"

	"github.com/danielgtaylor/huma/v2"
)

func (s *Server) dashboardRoutes() section {
	return section{tag: "Dashboard", about: "What goes on, for cheap polling.", routes: []route{
		query(s.getDashboard, route{
			method: "GET", path: "/dashboard", guard: readers, views: []string{"runs", "decisions"},
			id: "getDashboard", summary: "What goes on",
			text: "What the workspace is busy with, for clients that ask again and again: send the `ETag` of the last answer as " +
				"`If-None-Match` and wait `X-Svc-Poll-After` seconds in between. While nothing has changed the answer is 304, " +
				"without a body.",
			answered:  newDashboard(exampleOverview, exampleSystem, exampleAt(0)),
			responses: map[string]*huma.Response{"304": dashboardUnchanged()},
		}),
	}}
}

type dashboardQuery struct {
	IfNoneMatch string `header:"If-None-Match" maxLength:"1024" doc:"The ETag of the answer that the caller has."`
}

type dashboardAnswer struct {
	Status       int
	ETag         string `header:"ETag"`
	PollAfter    int    `header:"X-Svc-Poll-After" doc:"How many seconds to wait before asking again."`
	CacheControl string `header:"Cache-Control"`
	Body         *dashboard
}

type dashboard struct {
	Head   sentence   `json:"head"`
	Runs   activeRuns `json:"runs"`
	Inbox  waiting    `json:"inbox"`
	Farm   farm       `json:"farm"`
	System system     `json:"system"`
	Recent []run      `json:"recent" nullable:"false" doc:"The runs that moved last, the newest first."`
}

type sentence struct {
	Sentence string `json:"sentence" example:"11 runs are active. 3 wait for a person."`
}

type activeRuns struct {
	Active  int          `json:"active"`
	ByStage []stageCount `json:"byStage" nullable:"false"`
}

type stageCount struct {
	Label   string `json:"label" example:"Build farm"`
	Count   int    `json:"count" doc:"Runs in this stage, those that wait or are stuck among them."`
	Waiting int    `json:"waiting" doc:"Runs that wait for a person."`
	Stuck   int    `json:"stuck" doc:"Runs that should move and do not."`
}

type waiting struct {
	Waiting  int           `json:"waiting" doc:"Decisions that wait for a person."`
	OldestAt *timestamp    `json:"oldestAt" nullable:"true" doc:"When the one that waits longest was asked; null if nothing waits."`
	ByKind   []kindWaiting `json:"byKind" nullable:"false" doc:"Each kind, also one of which nothing waits."`
}

type kindWaiting struct {
	KindID events.DecisionKind `json:"kindId" enum:"fact_review,merge_approval,protected_path_allow_once"`
	Count  int                 `json:"count" doc:"Decisions of this kind that wait."`
}

type farm struct {
	On        bool   `json:"on" doc:"Whether there is a build farm."`
	PublicURL string `json:"publicUrl" doc:"The gateway, by which runners reach it; empty while it is not set." example:"https://farm.example"`

	Online   int `json:"online" doc:"Runners that are connected and take jobs."`
	Draining int `json:"draining" doc:"Runners that are connected and take no more."`
	Slots    int `json:"slots" doc:"Jobs that the runners which are online can run at once."`
	Busy     int `json:"busy" doc:"Jobs that runners have."`
	Queued   int `json:"queued" doc:"Jobs that wait for a runner."`
}

type system struct {
	Status       string             `json:"status" enum:"ok,error"`
	AskedAt      *timestamp         `json:"askedAt" nullable:"true" doc:"When they were asked. They are asked every five seconds: a 304 says that they still say the same."`
	Dependencies []systemDependency `json:"dependencies" nullable:"false" doc:"What the service needs, and the service itself, by name."`
}

type systemDependency struct {
	Name    string `json:"name" example:"engine" doc:"rest is the service itself."`
	Status  string `json:"status" enum:"up,down"`
	Message string `json:"message" doc:"What is wrong; while it is up what it says of itself, if anything." example:"The engine does not answer."`
	TookMS  int64  `json:"tookMs" doc:"How long it took to answer, or to be given up; 0 of the service itself." example:"3"`
}

// recentRuns is how many runs the dashboard shows by name.
const recentRuns = 10

// getDashboard answers 304 without looking at anything but a position as long
// as that and the dependencies stay as they were.
func (s *Server) getDashboard(ctx context.Context, in *dashboardQuery) (*dashboardAnswer, error) {
	workspace := callerOf(ctx).workspace
	position, _, err := s.positions.Find(ctx, workspace, s.lists.Dashboard.Positions)
	if err != nil {
		return nil, err
	}
	health, now := s.health.now(ctx), s.now()
	name := func(until time.Time) string { return etag(workspace, position, health.text, until) }
	out := &dashboardAnswer{Status: http.StatusNotModified, PollAfter: s.pollAfter(), CacheControl: "private, no-cache"}
	if out.ETag = matching(in.IfNoneMatch, now, name); out.ETag != "" {
		return out, nil
	}
	found, err := s.lists.Dashboard.Get(ctx, workspace, recentRuns, now)
	if err != nil {
		return nil, err
	}
	var until time.Time
	if next := found.Stages.Next; next != nil {
		until = *next
	}
	out.Status, out.ETag, out.Body = http.StatusOK, name(until), newDashboard(found, health.system, now)
	out.Body.Farm.On, out.Body.Farm.PublicURL = s.farm.On, s.farm.PublicURL
	return out, nil
}

func newDashboard(o projections.Overview, system system, now time.Time) *dashboard {
	d := &dashboard{
		System: system, Inbox: newWaiting(o.Waiting), Recent: []run{}, Runs: activeRuns{ByStage: newStageCounts(o.Stages)},
		Farm: farm{
			Online: o.Slots.Online, Draining: o.Slots.Draining, Slots: o.Slots.Total, Busy: o.Slots.Busy, Queued: o.Queued,
		},
	}
	for _, c := range d.Runs.ByStage {
		d.Runs.Active += c.Count
	}
	d.Head.Sentence = busy(d.Runs.Active, d.Inbox.Waiting)
	for _, r := range o.Recent {
		d.Recent = append(d.Recent, runAt(now)(r))
	}
	return d
}

func newWaiting(c projections.WaitingCounts) waiting {
	w := waiting{Waiting: c.Total(), OldestAt: optional(c.Oldest), ByKind: []kindWaiting{}}
	for _, kind := range decisionKinds {
		w.ByKind = append(w.ByKind, kindWaiting{kind, c.ByKind[kind]})
	}
	return w
}

func busy(active, waiting int) string {
	runs := fmt.Sprintf("%d runs are active.", active)
	switch active {
	case 0:
		return "No run is active."
	case 1:
		runs = "1 run is active."
	}
	switch waiting {
	case 0:
		return runs
	case 1:
		return runs + " 1 waits for a person."
	}
	return fmt.Sprintf("%s %d wait for a person.", runs, waiting)
}

// How long a client waits before it asks again, in seconds: longer when the
// service is short of connections to the database.
const (
	pollNormally = 15
	pollBusy     = 30
	pollFull     = 60
)

func (s *Server) pollAfter() int {
	switch load := s.load(); {
	case load >= 0.95:
		return pollFull
	case load >= 0.75:
		return pollBusy
	}
	return pollNormally
}

// dashboardUnchanged describes the answer to whoever has the newest dashboard.
func dashboardUnchanged() *huma.Response {
	return &huma.Response{Description: "Nothing has changed since the answer with that ETag.", Headers: map[string]*huma.Param{
		"ETag":             {Schema: &huma.Schema{Type: huma.TypeString}},
		"X-Svc-Poll-After": {Schema: &huma.Schema{Type: huma.TypeInteger}},
		"Cache-Control":    {Schema: &huma.Schema{Type: huma.TypeString}},
	}}
}

var exampleOverview = projections.Overview{
	Stages: exampleStages, Waiting: exampleWaiting, Recent: []projections.Run{exampleRun()},
	Slots: projections.RunnerSlots{Online: 2, Total: 6, Busy: 1}, Queued: 3,
}

var exampleSystem = newPicture([]systemDependency{
	{"database", "up", "PostgreSQL 18.1, the schema is that of this version.", 2}, {"engine", "up", "", 3},
}, exampleAt(0)).system
