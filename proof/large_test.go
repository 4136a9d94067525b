package proof

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
)

// Logs of large events are signed and verified in pages of a few events.
func TestPagesOfLargeEventsAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const count, size = 40, 240 << 10
	event := events.RunFactsRecorded{Facts: []string{strings.Repeat("x", size)}}
	list := []events.ID{newID(), newID()}
	for _, workspace := range list {
		for range count {
			_, err := w.log.Append(t.Context(), &events.Commit{
				Workspace: workspace, At: epoch, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}},
				Writes: []events.Write{{Stream: newID(), Events: []events.Event{event}}},
			})
			require.NoError(t, err)
		}
	}
	p := w.prover(t)
	pages := 0
	for more := list; len(more) > 0; pages++ {
		var err error
		more, err = p.takePage(t.Context(), more)
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, pages, 2*count*size/store.PageBytes)
	page, err := readPage(t.Context(), w.db, list[0], 0, count)
	require.NoError(t, err)
	require.Less(t, bytesOf(page), store.PageBytes+2*size)
	for _, workspace := range list {
		steps := 0
		report, err := Verify(t.Context(), w.db, workspace, Check{VerifierKey: publicKey(t, w), Progress: func(int64, int64) { steps++ }})
		require.NoError(t, err)
		require.Nil(t, report.Bad)
		require.Equal(t, int64(count), report.Size)
		require.Greater(t, steps, 1)
	}
}

func publicKey(t *testing.T, w *world) string {
	t.Helper()
	key, err := PublicKey(t.Context(), w.db)
	require.NoError(t, err)
	return key
}
