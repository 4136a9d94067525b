package proof

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// A stored report stays readable when the key under which it was stored is removed after a rotation. One that
// was changed by SQL is not authenticated again.
func TestReportOutlivesARotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	workspace, forged, said := newID(), newID(), &bytes.Buffer{}
	w.append(t, workspace, 10)
	w.append(t, forged, 10)
	p := w.prover(t)
	catchUp(t, p, workspace)
	want, err := p.Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	_, err = p.Verify(t.Context(), forged, "", nil)
	require.NoError(t, err)
	w.exec(t, `update verifications set report = '{}' where workspace_id = $1`, forged)

	for _, renewed := range []int{1, 0} {
		n, err := RotateReports(t.Context(), w.db, ringOf(t, "b", "a"))
		require.NoError(t, err)
		require.Equal(t, renewed, n)
	}
	after := New(w.db, ringOf(t, "b"), "svc.example.com", always, slog.New(slog.NewTextHandler(said, nil)))
	got, ok, err := after.Last(t.Context(), workspace)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, got)
	require.Empty(t, said.String())
	_, ok, err = after.Last(t.Context(), forged)
	require.NoError(t, err)
	require.False(t, ok)
}
