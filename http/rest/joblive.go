package rest

import (
	"context"

	"svc/events"
	"svc/farm/wire"
	"svc/projections"
)

// A liveJob is the state of a job that is not in its events: the size of its log, and what its runner
// last reported.
type liveJob struct {
	logBytes int64 // bytes of a log that is not complete
	stalled  bool
	usage    *jobUsage
}

// addTo sets the live fields of an answer.
func (l liveJob) addTo(j *FarmJob) {
	j.Stalled = l.stalled
	if !j.Log.Complete {
		j.Log.Bytes = l.logBytes
	}
}

// liveJobs returns the live state of the jobs in list that are held by runners or whose log is not
// complete, by job id.
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
		sizes, err := s.Farm.Logs.Sizes(ctx, workspace, open)
		if err != nil {
			return nil, err
		}
		for job, size := range sizes {
			live[job] = liveJob{logBytes: size}
		}
	}
	if len(runners) == 0 {
		return live, nil
	}
	presences, err := s.Views.Runners.Presences(ctx, workspace, runners)
	if err != nil {
		return nil, err
	}
	for _, j := range list {
		if p, ok := presences[runnerOf(j)]; ok {
			one := live[j.ID]
			one.stalled = s.Now().Sub(p.SeenAt) > wire.StalledAfter
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

// usageOf returns the usage of a job that its runner reported, nil if it reported none.
func usageOf(p projections.RunnerPresence, job events.ID) *jobUsage {
	for _, u := range p.Usage {
		if u.Job == job {
			return &jobUsage{CPUMs: u.CPUMs, RSSBytes: u.RSSBytes}
		}
	}
	return nil
}
