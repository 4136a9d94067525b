package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

func TestEstimateSaysOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	e := client.RunEstimate{Merged: 3, Runs: []string{"a", "b", "c", "d"}}
	require.Equal(t, "No estimate yet: too few similar runs have ended (4 so far).", estimateText(e))
	e.Runs = append(e.Runs, "e", "f")
	e.WorkMs = &client.Spread{P50: 600_000, P80: 1_500_000}
	require.Equal(t, "Of 6 similar runs, half took up to 10 min of work, and four of five up to 25 min of work. 3 were merged.",
		estimateText(e))
	e.CostCents = &client.Spread{P50: 90, P80: 140}
	require.Equal(t, "Of 6 similar runs, half took up to $0.90 and 10 min of work, "+
		"and four of five up to $1.40 and 25 min of work. 3 were merged.", estimateText(e))
}
