package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

// Every attempt to store a batch is reported, failed ones too.
func TestBatchesAreObserved(t *testing.T) {
	s := open(t, pgtest.New(t))
	var seen []store.Batch // written by the appender before it answers, so no lock is needed
	s.Observe(func(b store.Batch) { seen = append(seen, b) })
	workspace, stream := newID(), newID()

	first := commit(workspace, stream, 0, "first")
	first.Writes[0].Events = append(first.Writes[0].Events, markedEvents("more", 2)...)
	_, err := s.Append(t.Context(), first)
	require.NoError(t, err)
	_, err = s.Append(t.Context(), commit(workspace, stream, 0, "too late"))
	require.ErrorIs(t, err, events.ErrConflict)

	require.Len(t, seen, 2)
	require.Equal(t, []int{1, 3}, []int{seen[0].Commits, seen[0].Events})
	require.True(t, seen[0].Stored)
	require.Equal(t, []int{1, 1}, []int{seen[1].Commits, seen[1].Events})
	require.False(t, seen[1].Stored)
	for _, b := range seen {
		require.Positive(t, b.Took)
		require.GreaterOrEqual(t, b.Waited, time.Duration(0))
		require.Less(t, b.Waited+b.Took, limit)
	}
}
