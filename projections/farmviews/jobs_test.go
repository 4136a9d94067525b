package farmviews

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// A job has ended when its runner says, by the length of the attempt, however late the report comes and wrong its
// clock is.
func TestJobEndsBeforeItsReportArrives(t *testing.T) {
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	reported := began.Add(14 * time.Second)
	clock := began.Add(-3 * time.Hour)
	for _, c := range []struct {
		name       string
		start, end time.Time // by the runner's clock
		want       time.Time
	}{
		{name: "the log comes late", start: clock, end: clock.Add(time.Second), want: began.Add(time.Second)},
		{name: "no times", want: reported},
		{name: "the clock went back", start: clock, end: clock.Add(-time.Second), want: reported},
		{name: "longer than it was held", start: clock, end: clock.Add(time.Hour), want: reported},
	} {
		var j *Job
		id := events.NewID(began)
		for _, r := range []events.Record{
			{At: began, Event: events.JobSubmitted{}},
			{At: began, Event: events.JobLeased{Epoch: 1, Attempt: 1}}, {At: began, Event: events.JobStarted{Epoch: 1}},
			{At: reported, Event: events.JobFinished{Epoch: 1, Outcome: events.JobStateSucceeded, StartedAt: c.start, FinishedAt: c.end}},
		} {
			r.Stream = id
			j = jobs.Apply(id, j, r)
		}
		require.Equal(t, c.want, *j.FinishedAt, c.name)
		require.Equal(t, c.want, *j.current().EndedAt, c.name)
		require.Equal(t, reported, *j.DueAt, c.name)
	}
}
