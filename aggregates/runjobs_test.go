package aggregates

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestOpenJobsAreInOrder(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first, second, third := events.NewID(at), events.NewID(at.Add(time.Second)), events.NewID(at.Add(time.Minute))
	var r Run
	require.Empty(t, r.OpenJobs())
	r.Apply(events.RunQueued{}, events.Actor{})
	for _, id := range []events.ID{third, first, second} {
		r.Apply(events.RunJobRequested{Job: id}, events.Actor{})
	}
	require.Equal(t, []events.ID{first, second, third}, r.OpenJobs())
}
