package commands

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// However many people are denied, the counters stay few, and no denial is lost.
func TestOmissionsOfManyAreBounded(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	id := func(n int) events.ID { return events.ID{13: 1, 14: byte(n >> 8), 15: byte(n)} }
	list := omitted{}
	const workspaces, actors = 3000, 4
	for w := range workspaces {
		for a := range actors {
			list.add(denialSubject{id(w), id(a)}, omission{actor: events.Actor{ID: id(a)}, count: 1, since: at, until: at.Add(time.Duration(w))})
		}
	}
	require.Len(t, list, 2*maxOmitted+1)
	total := int64(0)
	for by, o := range list {
		total += o.count
		switch {
		case by == denialSubject{}:
			require.Equal(t, at.Add(workspaces-1), o.until)
		case by.actor.IsZero():
			require.Equal(t, "others", o.actor.Name)
			require.EqualValues(t, actors, o.count)
		default:
			require.Equal(t, by.actor, o.actor.ID)
		}
	}
	require.EqualValues(t, workspaces*actors, total)
	list.add(denialSubject{id(0), id(0)}, omission{count: 1, since: at, until: at})
	require.EqualValues(t, 2, list[denialSubject{id(0), id(0)}].count, "who is counted goes on to be")
}
