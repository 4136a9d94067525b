package rest

import (
	"context"

	"svc/events"
	"svc/farm/wire"
	"svc/projections"
)

// A liveJob is what is known of a job beside its events: how far its output has come and
// what its runner said last.
type liveJob struct {
	written int64 // bytes of a log that is not complete
	stalled bool
	usage   *jobUsage
}

// of adds it to an answer.
func (l liveJob) of(j *FarmJob) {
	j.Stalled = l.stalled
	if !j.Log.Complete {
		j.Log.Bytes = l.written
	}
}

// liveJobs looks at those of list that runners have, and at logs that are not complete.
func (s *Server) liveJobs(ctx context.Context, workspace events.ID, list []projections.Job) (map[events.ID]liveJob, error) {
	var runners []events.ID
	open := map[events.ID]int{}
	for _, j := range list {
		if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Log == nil {
			open[j.ID] = j.Attempts[n-1].Epoch
		}
		if j.State.Held() {
			runners = append(runners, *j.Runner)
		}
	}
	live := map[events.ID]liveJob{}
	if len(open) > 0 {
		sizes, err := s.farm.Logs.Sizes(ctx, workspace, open)
		if err != nil {
			return nil, err
		}
		for job, size := range sizes {
			live[job] = liveJob{written: size}
		}
	}
	if len(runners) == 0 {
		return live, nil
	}
	seen, err := s.views.Runners.Presences(ctx, workspace, runners)
	if err != nil {
		return nil, err
	}
	for _, j := range list {
		if p, ok := seen[runnerOf(j)]; ok {
			one := live[j.ID]
			one.stalled = s.now().Sub(p.SeenAt) > wire.StalledAfter
			one.usage = usageOf(p, j.ID)
			live[j.ID] = one
		}
	}
	return live, nil
}

// runnerOf returns the runner that has a job, or the zero id.
func runnerOf(j projections.Job) events.ID {
	if !j.State.Held() {
		return events.ID{}
	}
	return *j.Runner
}

// usageOf returns what a runner said of a job, nil if it said nothing.
func usageOf(p projections.RunnerPresence, job events.ID) *jobUsage {
	for _, u := range p.Usage {
		if u.Job == job {
			return &jobUsage{CPUMs: u.CPUMs, RSSBytes: u.RSSBytes}
		}
	}
	return nil
}
