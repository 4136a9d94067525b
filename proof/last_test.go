package proof

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The last report is the one that was answered, also one of something bad; what somebody
// held against the log is their own affair.
func TestTheLastReportIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	workspace := newID()
	w.append(t, workspace, 10)
	p := w.prover(t)
	prove(t, p, workspace)
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
	require.NoError(t, p.keep(t.Context(), earlier))
	requireLast(bad)
}
