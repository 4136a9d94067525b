package proof

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
}
