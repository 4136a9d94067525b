package runs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The interval is that of Wilson (1927): for 33 of 40, 68.05 % to 91.25 %.
func TestEstimatesHeldHasAnInterval(t *testing.T) {
	t.Parallel()
	require.Equal(t, estimatesHeld{Runs: 40, Held: 33, Low: new(68.1), High: new(91.3)}, newEstimatesHeld(33, 40))
	require.Equal(t, estimatesHeld{}, newEstimatesHeld(0, 0))
	one := newEstimatesHeld(1, 1)
	require.Equal(t, []float64{20.7, 100}, []float64{*one.Low, *one.High})
}
