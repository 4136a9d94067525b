package rest

import (
	"context"
	"time"

	"svc/events"
	"svc/projections"
)

func (s *Server) farmRoutes() section {
	return section{tag: "Build farm", routes: []route{
		query(s.getFarm, route{
			method: "GET", path: "/farm", guard: readers, farm: true,
			id: "getFarm", summary: "How the build farm is",
			text: "Where runners reach the farm, whether machines can be enrolled and what is missing for it, what runs and waits, and what " +
				"became of the jobs of the last 24 hours.",
			answered: newFarmSummary(exampleFarm, exampleFarmState),
		}),
	}}
}

type farmSummary struct {
	PublicURL      string     `json:"publicUrl" doc:"The gateway, by which runners reach the farm; empty while it is not set." example:"https://farm.example"`
	Ready          bool       `json:"ready" doc:"Whether machines can be enrolled."`
	Set            []string   `json:"set" nullable:"false" doc:"Variables that are set, of those that enrolling needs." example:"[\"SVC_FARM_PUBLIC_URL\"]"`
	Missing        []string   `json:"missing" nullable:"false" doc:"Variables that an operator has to set, or what they lead to; empty if ready." example:"[]"`
	Slots          slots      `json:"slots"`
	Queued         int        `json:"queued" doc:"Jobs that wait for a runner."`
	OldestQueuedAt *timestamp `json:"oldestQueuedAt" nullable:"true" doc:"When the job that was submitted first, of those that wait, began to; null if none waits."`
	Day            farmDay    `json:"day"`
}

type farmDay struct {
	Jobs              int    `json:"jobs" doc:"That ended in the last 24 hours, up to 5,000."`
	Exact             bool   `json:"exact" doc:"false if there were more: what is told is of those that ended last."`
	Succeeded         int    `json:"succeeded"`
	Failed            int    `json:"failed"`
	TimedOut          int    `json:"timedOut"`
	Cancelled         int    `json:"cancelled"`
	Lost              int    `json:"lost" doc:"No runner brought them to an end."`
	Expired           int    `json:"expired" doc:"No runner took them in time."`
	MedianWaitMS      *int64 `json:"medianWaitMs" nullable:"true" doc:"From the queue to a runner, in the middle: half of them waited less. null if no runner had any."`
	PriorMedianWaitMS *int64 `json:"priorMedianWaitMs" nullable:"true" doc:"That of the 24 hours before."`
}

// A farmState is what the configuration says of the farm.
type farmState struct {
	url          string
	set, missing []string
}

func (s *Server) getFarm(ctx context.Context, _ *struct{}) (*struct{ Body farmSummary }, error) {
	found, err := s.views.Farm.Get(ctx, callerOf(ctx).workspace, s.now())
	if err != nil {
		return nil, err
	}
	state := farmState{url: s.farm.PublicURL}
	state.set, state.missing = s.farm.Ready()
	return &struct{ Body farmSummary }{newFarmSummary(found, state)}, nil
}

func newFarmSummary(f projections.FarmSummary, state farmState) farmSummary {
	d := f.Day
	return farmSummary{
		PublicURL: state.url, Ready: len(state.missing) == 0, Set: state.set, Missing: state.missing,
		Slots: newSlots(f.Slots), Queued: f.Queued, OldestQueuedAt: optional(f.OldestSince),
		Day: farmDay{
			Jobs: d.Jobs, Exact: d.Jobs < projections.MaxFarmJobs,
			Succeeded: d.ByState[events.JobSucceeded], Failed: d.ByState[events.JobFailed], TimedOut: d.ByState[events.JobTimedOut],
			Cancelled: d.ByState[events.JobIsCancelled], Lost: d.ByState[events.JobIsLost], Expired: d.ByState[events.JobIsExpired],
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
	exampleFarm = projections.FarmSummary{
		Slots: projections.RunnerSlots{Online: 2, Total: 6, Busy: 1}, Queued: 3, OldestSince: new(exampleAt(11)),
		Day: projections.FarmDay{
			Jobs: 126, Wait: new(38 * time.Second),
			ByState: map[events.JobState]int{events.JobSucceeded: 118, events.JobFailed: 7, events.JobIsLost: 1},
		},
		Prior: projections.FarmDay{Wait: new(52 * time.Second)},
	}
	exampleFarmState = farmState{"https://farm.example", []string{
		"SVC_FARM_PUBLIC_URL", "SVC_FARM_CLIENT_CERT_HEADER", "SVC_FARM_RELEASES_DIR"}, []string{}}
)
