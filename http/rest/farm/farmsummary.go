package farm

import (
	"context"
	"time"

	"svc/events"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
)

func (s *Server) farmRoutes() door.Section {
	return door.Section{Tag: "Build farm", Routes: []door.Route{
		door.Query(s.getFarm, door.Route{
			Method: "GET", Path: "/farm", Guard: door.AnyMemberOrReadToken, Farm: true,
			ID: "getFarm", Summary: "Get the farm summary",
			Text: "Returns the farm's address for runners, whether machines can be enrolled and what is missing for it, the running and " +
				"queued jobs, and the outcomes of the last 24 hours.",
			AnswerExample: newFarmSummary(exampleFarm, exampleFarmState),
		}),
	}}
}

type farmSummary struct {
	PublicURL      string             `json:"publicUrl" doc:"The address of the gateway for runners; empty if it is not set." example:"https://farm.example"`
	Ready          bool               `json:"ready" doc:"Whether machines can be enrolled."`
	Set            []string           `json:"set" nullable:"false" doc:"Prerequisites of enrollment that are set." example:"[\"SVC_FARM_PUBLIC_URL\"]"`
	Missing        []string           `json:"missing" nullable:"false" doc:"Prerequisites that an operator still has to provide; empty if ready." example:"[]"`
	Slots          slots              `json:"slots"`
	Queued         int                `json:"queued" doc:"Jobs that wait for a runner."`
	OldestQueuedAt *openapi.Timestamp `json:"oldestQueuedAt" nullable:"true" doc:"When the job that waits longest was last queued; null if none waits."`
	Day            farmDay            `json:"day"`
}

type farmDay struct {
	Jobs              int    `json:"jobs" doc:"Jobs that ended in the last 24 hours, at most 5,000."`
	Exact             bool   `json:"exact" doc:"false if there were more; the counts then cover those that ended last."`
	Succeeded         int    `json:"succeeded"`
	Failed            int    `json:"failed"`
	TimedOut          int    `json:"timedOut"`
	Cancelled         int    `json:"cancelled"`
	Lost              int    `json:"lost" doc:"Jobs that no runner finished."`
	Expired           int    `json:"expired" doc:"Jobs that no runner took in time."`
	MedianWaitMS      *int64 `json:"medianWaitMs" nullable:"true" doc:"Median time between queueing and assignment to a runner. null if no job was assigned."`
	PriorMedianWaitMS *int64 `json:"priorMedianWaitMs" nullable:"true" doc:"medianWaitMs of the preceding 24 hours."`
}

// A farmState is the configured state of the farm.
type farmState struct {
	url          string
	set, missing []string
}

func (s *Server) getFarm(ctx context.Context, _ *struct{}) (*struct{ Body farmSummary }, error) {
	found, err := s.BuildFarm.Get(ctx, door.CallerOf(ctx).Workspace, s.Now())
	if err != nil {
		return nil, err
	}
	state := farmState{url: s.PublicURL}
	state.set, state.missing = s.Ready()
	return &struct{ Body farmSummary }{newFarmSummary(found, state)}, nil
}

func newFarmSummary(f farmviews.FarmSummary, state farmState) farmSummary {
	d := f.Day
	return farmSummary{
		PublicURL: state.url, Ready: len(state.missing) == 0, Set: state.set, Missing: state.missing,
		Slots: newSlots(f.Slots), Queued: f.Queued, OldestQueuedAt: openapi.FormatOptionalTime(f.OldestSince),
		Day: farmDay{
			Jobs: d.Jobs, Exact: d.Jobs < farmviews.MaxFarmJobs,
			Succeeded: d.ByState[events.JobStateSucceeded], Failed: d.ByState[events.JobStateFailed], TimedOut: d.ByState[events.JobStateTimedOut],
			Cancelled: d.ByState[events.JobStateCancelled], Lost: d.ByState[events.JobStateLost], Expired: d.ByState[events.JobStateExpired],
			MedianWaitMS: milliseconds(d.Wait), PriorMedianWaitMS: milliseconds(f.Prior.Wait),
		},
	}
}

func milliseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.Milliseconds())
}

var (
	exampleFarm = farmviews.FarmSummary{
		Slots: farmviews.RunnerSlots{Online: 2, Total: 6, Busy: 1}, Queued: 3, OldestSince: new(schema.ExampleAt(11)),
		Day: farmviews.FarmDay{
			Jobs: 126, Wait: new(38 * time.Second),
			ByState: map[events.JobState]int{events.JobStateSucceeded: 118, events.JobStateFailed: 7, events.JobStateLost: 1},
		},
		Prior: farmviews.FarmDay{Wait: new(52 * time.Second)},
	}
	exampleFarmState = farmState{"https://farm.example", []string{
		"SVC_FARM_PUBLIC_URL", "SVC_FARM_CLIENT_CERT_HEADER", "SVC_FARM_RELEASES_DIR"}, []string{}}
)
