package proof

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// The stored report is that of the last verification, also of a failed one, but not of one with a
// checkpoint from the caller.
func TestLastReportIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	workspace := newID()
	w.append(t, workspace, 10)
	p := w.prover(t)
	catchUp(t, p, workspace)
	_, ok, err := p.Last(t.Context(), workspace)
	require.NoError(t, err)
	require.False(t, ok)

	requireLast := func(want Report) {
		t.Helper()
		got, ok, err := p.Last(t.Context(), workspace)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	good, err := p.Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	require.Nil(t, good.Bad)
	requireLast(good)

	_, err = p.Verify(t.Context(), workspace, "no checkpoint of ours", nil)
	require.NoError(t, err)
	requireLast(good)

	w.exec(t, `update events set data = '{"other":1}' where workspace_id = $1 and seq = 3`, workspace)
	bad, err := p.Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	require.NotNil(t, bad.Bad)
	requireLast(bad)

	earlier := good
	earlier.CheckedAt = bad.CheckedAt.Add(-time.Minute)
	require.NoError(t, p.storeReport(t.Context(), earlier))
	requireLast(bad)
	ahead := good
	ahead.CheckedAt = bad.CheckedAt.Add(6 * time.Hour) // of a process with another clock
	require.NoError(t, p.storeReport(t.Context(), ahead))
	requireLast(ahead)
	bad, err = p.Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	requireLast(bad)
}

// A stored report that was changed by SQL is dropped and reported, and the next verification is
// stored again.
func TestForgedReportIsDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	workspace, other, said := newID(), newID(), &bytes.Buffer{}
	for _, id := range []events.ID{workspace, other} {
		w.append(t, id, 10)
	}
	p := New(w.db, ringOf(t, "a"), "svc.example.com", always, slog.New(slog.NewTextHandler(said, nil)))
	catchUp(t, p, workspace)
	catchUp(t, p, other)
	w.exec(t, `update events set data = '{"other":1}' where workspace_id = $1 and seq = 3`, workspace)
	for name, forge := range map[string]string{
		"the result": `update verifications set report = (report::jsonb - 'Bad')::json where workspace_id = $1`,
		"the time":   `update verifications set checked_at = '2200-01-01' where workspace_id = $1`,
		"another's": `update verifications v set report = o.report, checked_at = o.checked_at, mac = o.mac from verifications o
			where v.workspace_id = $1 and o.workspace_id <> $1`,
		"no code":         `update verifications set mac = '' where workspace_id = $1`,
		"no JSON of ours": `update verifications set report = '[]' where workspace_id = $1`,
	} {
		_, err := p.Verify(t.Context(), other, "", nil)
		require.NoError(t, err)
		bad, err := p.Verify(t.Context(), workspace, "", nil)
		require.NoError(t, err)
		require.NotNil(t, bad.Bad)
		got, ok, err := p.Last(t.Context(), workspace)
		require.NoError(t, err)
		require.True(t, ok, name)
		require.Equal(t, bad, got)
		require.NotContains(t, said.String(), "not written by this service")

		w.exec(t, forge, workspace)
		_, ok, err = p.Last(t.Context(), workspace)
		require.NoError(t, err, name)
		require.False(t, ok, name)
		require.Contains(t, said.String(), "level=ERROR", name)
		require.Contains(t, said.String(), "not written by this service", name)
		said.Reset()
		_, ok, err = p.Last(t.Context(), workspace)
		require.NoError(t, err)
		require.False(t, ok, name)
		require.Empty(t, said.String(), "it is gone")
	}
}
