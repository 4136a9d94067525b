package insights

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

func TestEstimatesSayHowOftenTheyHeld(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Estimates: no merged run of this time had one.", estimatesText(client.EstimatesHeld{}))
	require.Equal(t, "Estimates: 33 of 40 merged runs took no longer than four of five were expected to (82 %; 95 % interval 68 to 91 %).",
		estimatesText(client.EstimatesHeld{Runs: 40, Held: 33, Low: new(68.1), High: new(91.3)}))
}
