package main

import (
	"context"
	"fmt"
	"time"

	"svc/dev/codehost"
	"svc/events"
)

const (
	manyRuns  = 200
	manyRepos = 10
	manySlots = 4
	// manyJob is the work of each run at the farm: less would keep no farm busy.
	manyJob = "sleep 3"
)

// runMany compares the time until all of many queued runs are merged and tidied up with what the farm alone would need
// for them: its time for one run, measured before, divided among its slots. Each repository has one active run at a
// time, as more would have to test most merges again on a base that has moved.
func runMany(ctx context.Context, s *suite) (result, error) {
	n := max(manyRepos, int(manyRuns**scale))
	var repos []codehost.Repository
	for i := range manyRepos {
		repos = append(repos, newRepository(fmt.Sprintf("acme/many%d", i), n/manyRepos))
	}
	repos = append(repos, newRepository("acme/one", 3))
	l, err := s.newLoopStack(ctx, repos)
	if err != nil {
		return result{}, err
	}
	defer l.stop()
	if err := l.startRunner(ctx, manySlots); err != nil {
		return result{}, err
	}
	one, err := l.farmTime(ctx, "acme/one", 3)
	if err != nil {
		return result{}, err
	}
	var ids []string
	for _, r := range repos[:manyRepos] {
		id, err := l.connect(ctx, r.Name, 1, manyJob)
		if err != nil {
			return result{}, err
		}
		ids = append(ids, id)
	}
	before, err := processorTime()
	if err != nil {
		return result{}, err
	}
	from := time.Now()
	for i := range n {
		if _, err := l.queue(ctx, ids[i%manyRepos], i/manyRepos+1); err != nil {
			return result{}, err
		}
	}
	if err := l.finish(ctx, 3+n); err != nil {
		return result{}, err
	}
	took := time.Since(from)
	after, err := processorTime()
	ideal := time.Duration(n) * one / manySlots
	return result{Ratios: []float64{took.Seconds() / ideal.Seconds()}, Note: map[string]any{
		"took_s": int(took.Seconds()), "farm_s": int(ideal.Seconds()), "one_ms": one.Milliseconds(),
		"cpu_each": ((after - before) / time.Duration(n)).Round(time.Millisecond).String(),
	}}, err
}

// farmTime runs the first n issues of a repository one after the other, and returns the median time from the request for
// a run's job until the run has its result.
func (l *loopStack) farmTime(ctx context.Context, name string, n int) (time.Duration, error) {
	repo, err := l.connect(ctx, name, 1, manyJob)
	if err != nil {
		return 0, err
	}
	var took []time.Duration
	for i := range n {
		run, err := l.queue(ctx, repo, i+1)
		if err == nil {
			err = l.finish(ctx, i+1)
		}
		if err != nil {
			return 0, err
		}
		id, err := events.ParseID(run)
		if err != nil {
			return 0, err
		}
		var seconds float64
		err = l.db.QueryRow(ctx, `
			select extract(epoch from max(at) filter (where kind = 'run.job_settled') - min(at) filter (where kind = 'run.job_requested'))::float8
			from events where workspace_id = $1 and stream = $2`, l.team.id, id).Scan(&seconds)
		if err != nil {
			return 0, err
		}
		took = append(took, time.Duration(seconds*float64(time.Second)))
	}
	return median(took), nil
}
