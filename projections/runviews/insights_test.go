package runviews_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections/runviews"
	"svc/test/world"
)

// A simulatedRun is a run with the times of all its events.
type simulatedRun struct {
	repo       events.Repo
	queued     time.Time
	ended      time.Time
	status     events.RunStatus
	work       bool // it reached Implementing
	duplicate  bool
	helped     []time.Time
	pushed     bool // by a person
	cost, late int64
}

// facts returns the events of the run with their times.
func (r simulatedRun) facts() (list []fact) {
	at := r.queued
	add := func(after time.Duration, e events.Event) {
		at = at.Add(after)
		list = append(list, fact{at, e})
	}
	add(time.Second, events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1})
	if r.work {
		add(time.Second, events.RunStageSucceeded{Stage: events.StageAnalyze, Attempt: 1})
		for _, s := range events.Stages()[2:6] {
			add(time.Second, events.RunStageEntered{Stage: s, Attempt: 1})
			if s == events.StageImplementing {
				add(0, events.RunCommitsPushed{Head: "c0ffee", By: map[bool]string{false: events.PushedByLoop, true: events.PushedByPerson}[r.pushed]})
			}
			add(time.Minute, events.RunStageSucceeded{Stage: s, Attempt: 1})
		}
		add(time.Second, events.RunStageEntered{Stage: events.StageMerge, Attempt: 1})
	}
	add(0, events.RunCostRecorded{Repo: r.repo.ID, Cents: r.cost})
	for _, t := range r.helped {
		list = append(list, fact{t, events.RunHumanIntervened{Repo: r.repo.ID, What: "answer"}})
	}
	at = r.ended
	switch r.status {
	case events.RunStatusMerged:
		add(-2*time.Second, events.RunMergeApproved{Head: "c0ffee"})
		add(time.Second, events.RunMergeAttempted{Head: "c0ffee"})
		add(time.Second, events.RunMerged{Repo: r.repo.ID, Head: "c0ffee"})
	case events.RunStatusRejected:
		add(0, events.RunRejected{Repo: r.repo.ID})
	case events.RunStatusFailed:
		add(0, events.RunFailed{Repo: r.repo.ID, Stage: events.StageAnalyze})
	case events.RunStatusCancelled:
		e := events.RunCancelled{Repo: r.repo.ID}
		if r.duplicate {
			e.Reason = events.CancelledAsDuplicate
		}
		add(0, e)
	}
	if r.late > 0 {
		list = append(list, fact{r.ended.Add(24 * time.Hour), events.RunCostRecorded{Repo: r.repo.ID, Cents: r.late}})
	}
	slices.SortStableFunc(list, func(a, b fact) int { return a.at.Compare(b.at) })
	return list
}

type fact struct {
	at time.Time
	events.Event
}

var today = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

// simulateRuns returns random runs that ended within the last days.
func simulateRuns(random *rand.Rand, repos []events.Repo, n int) (list []simulatedRun) {
	statuses := []events.RunStatus{
		events.RunStatusMerged, events.RunStatusMerged, events.RunStatusRejected, events.RunStatusFailed, events.RunStatusCancelled,
	}
	for range n {
		r := simulatedRun{repo: repos[random.IntN(len(repos))], status: statuses[random.IntN(len(statuses))], cost: random.Int64N(500)}
		r.queued = today.Add(-time.Duration(random.Int64N(int64(16 * 24 * time.Hour)))).Truncate(time.Second)
		r.ended = r.queued.Add(10*time.Minute + time.Duration(random.Int64N(int64(20*time.Hour)))).Truncate(time.Second)
		r.work = r.status == events.RunStatusMerged || random.IntN(2) == 0
		r.duplicate, r.pushed = random.IntN(4) == 0, r.work && random.IntN(4) == 0
		for range random.IntN(3) * random.IntN(2) {
			r.helped = append(r.helped, r.queued.Add(8*time.Minute+time.Duration(random.Int64N(int64(r.ended.Sub(r.queued)-9*time.Minute)))))
		}
		if random.IntN(5) == 0 {
			r.late = 1_000_000
		}
		list = append(list, r)
	}
	return list
}

// expectedCount computes the figures of insights from the runs, by their definition.
func expectedCount(list []simulatedRun, repo *events.ID, from, to time.Time) (c runviews.Count, cycles []float64) {
	within := func(t time.Time) bool { return !t.Before(from) && t.Before(to) }
	for _, r := range list {
		if repo != nil && r.repo.ID != *repo {
			continue
		}
		helped := c.Interventions
		for _, t := range r.helped {
			if within(t) {
				c.Interventions++
			}
		}
		if c.Interventions > helped {
			c.Helped++
		}
		if !within(r.ended) || r.status == events.RunStatusCancelled && (!r.work || r.duplicate) {
			continue
		}
		c.Runs++
		c.CostCents += r.cost
		if r.status != events.RunStatusMerged {
			continue
		}
		c.Merged++
		if len(r.helped) == 0 {
			c.Autonomous++
		}
		if !r.pushed {
			c.Untouched++
		}
		cycles = append(cycles, float64(r.ended.Sub(r.queued).Milliseconds()))
	}
	return c, cycles
}

func median(list []float64) float64 {
	slices.Sort(list)
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// Insights equal their definition, in total and by repository, before and after a rebuild.
func TestInsightsEqualTheirDefinition(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			random := rand.New(rand.NewPCG(seed, 9))
			repos := []events.Repo{{ID: world.NewID(), Name: "acme/web"}, {ID: world.NewID(), Name: "acme/api"}}
			list, workspace := simulateRuns(random, repos, 40), world.NewID()
			appendRuns(t, w, workspace, list)
			w.CaughtUp(t)
			for range 2 {
				for _, days := range []int{1, 7, 30} {
					to := today.Add(24 * time.Hour)
					from := to.AddDate(0, 0, -days)
					var sum runviews.Count
					for _, repo := range []*events.ID{nil, &repos[0].ID, &repos[1].ID} {
						report, err := runviews.Insights{DB: w.DB}.Get(t.Context(), workspace, repo, from, days)
						require.NoError(t, err)
						got, prior := report.Window, report.Prior
						requireDays(t, list, repo, from, report.ByDay)
						requireDays(t, list, repo, from.AddDate(0, 0, -days), report.PriorByDay)
						requireCount(t, list, repo, from, to, got)
						requireCount(t, list, repo, from.AddDate(0, 0, -days), from, prior)
						require.LessOrEqual(t, got.Autonomous, got.Merged)
						require.LessOrEqual(t, got.Untouched, got.Merged)
						require.LessOrEqual(t, got.Merged, got.Runs)
						if repo == nil {
							sum = got
							continue
						}
						require.Len(t, report.ByDay, days)
						require.Len(t, report.PriorByDay, days)
						sum.Runs, sum.Merged, sum.Interventions, sum.CostCents = sum.Runs-got.Runs, sum.Merged-got.Merged,
							sum.Interventions-got.Interventions, sum.CostCents-got.CostCents
						sum.Helped -= got.Helped
					}
					sum.Cycle, sum.Autonomous, sum.Untouched = nil, 0, 0
					require.Zero(t, sum, "the repositories add up to the workspace")
				}
				world.Rebuild(t, w.DB, world.View(t, "outcomes"))
			}
		})
	}
}

// requireDays compares each day from from on with the definition.
func requireDays(t *testing.T, list []simulatedRun, repo *events.ID, from time.Time, got []runviews.Count) {
	t.Helper()
	for i, day := range got {
		requireCount(t, list, repo, from.AddDate(0, 0, i), from.AddDate(0, 0, i+1), day)
	}
}

func requireCount(t *testing.T, list []simulatedRun, repo *events.ID, from, to time.Time, got runviews.Count) {
	t.Helper()
	want, cycles := expectedCount(list, repo, from, to)
	if len(cycles) == 0 {
		require.Nil(t, got.Cycle)
	} else {
		require.InDelta(t, median(cycles), got.Cycle.Whole, 0.5)
	}
	got.Cycle = nil
	require.Equal(t, want, got)
}

// appendRuns appends the events of all runs to one log, in the order of time.
func appendRuns(t *testing.T, w *world.World, workspace events.ID, list []simulatedRun) {
	t.Helper()
	type step struct {
		fact
		run   events.ID
		story simulatedRun
		issue int
	}
	var steps []step
	for i, r := range list {
		run := events.NewID(r.queued)
		steps = append(steps, step{fact{r.queued, nil}, run, r, i + 1})
		for _, f := range r.facts() {
			steps = append(steps, step{f, run, r, i + 1})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
	for _, s := range steps {
		e := s.Event
		if e == nil {
			e = events.RunQueued{Repo: s.story.repo, IssueNumber: s.issue, IssueTitle: "x"}
		}
		w.RecordAt(t, s.at, events.Actor{Type: events.BySystem, Name: "loop"}, workspace, s.run, e)
	}
}
