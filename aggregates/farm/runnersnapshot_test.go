package farm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// runnerStory is the stream of a runner.
func runnerStory() []events.Event {
	ephemeral := enrolled
	ephemeral.Jobs = 3
	next := events.Certificate{Authority: id(53), Serial: "b2", Key: events.KeyHash{2}, NotBefore: noon.AddDate(0, 0, 4),
		NotAfter: noon.AddDate(0, 0, 11)}
	return []events.Event{
		ephemeral, online,
		events.RunnerJobTaken{Runner: builder, Name: "builder-1", Job: id(61), Left: 2},
		events.RunnerJobTaken{Runner: builder, Name: "builder-1", Job: id(62), Left: 1},
		events.RunnerJobReturned{Runner: builder, Name: "builder-1", Job: id(61), Left: 2},
		events.RunnerCertificateRenewed{Runner: builder, Name: "builder-1", Certificate: next}, wentOffline,
		events.RunnerCertificateSuperseded{Runner: builder, Name: "builder-1", From: "a1", Serial: "b2"}, online, drained, resumed, drained,
		events.RunnerCertificateReused{Runner: builder, Name: "builder-1", Serial: "a1"},
		events.RunnerSuspended{Runner: builder, Name: "builder-1", Reason: reasonReused}, ended,
	}
}

// A process that starts with a snapshot of a runner, taken at any moment, gets the same
// state as one that folds the whole stream.
func TestRunnerSnapshotIsComplete(t *testing.T) {
	list := runnerStory()
	for _, kind := range events.Kinds() {
		if events.NounOf(kind).Name == "runner" {
			data, err := os.ReadFile(filepath.Join("..", "..", "events", "testdata", kind+".json"))
			require.NoError(t, err)
			e, err := events.Decode(kind, events.Schema(kind), data)
			require.NoError(t, err)
			list = append(list, e)
		}
	}
	for n := range len(list) + 1 {
		whole, before, after := folded[Runner](list), folded[Runner](list[:n]), Runner{}
		text, err := before.Snapshot()
		require.NoError(t, err)
		require.NoError(t, after.Restore(text))
		require.Equal(t, *before, after, "after %d events", n)
		for _, e := range list[n:] {
			apply(&after, e)
		}
		require.Equal(t, *whole, after, "%d events and the rest", n)
	}
	require.Error(t, new(Runner).Restore([]byte("[]")))
}

// As for workspaces: a snapshot with another meaning needs another form.
func TestRunnerSnapshotForm(t *testing.T) {
	r := folded[Runner](runnerStory()[:11])
	text, err := r.Snapshot()
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", "runner.2.json"))
	require.NoError(t, err)
	require.Equal(t, 2, r.Form())
	require.JSONEq(t, string(want), string(text), string(text))
}
