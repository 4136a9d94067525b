package insights

import (
	"fmt"

	"svc/ui/client"
)

// estimatesText says how often estimates held.
func estimatesText(e client.EstimatesHeld) string {
	if e.Runs == 0 || e.Low == nil || e.High == nil {
		return "Estimates: no merged run of this time had one."
	}
	return fmt.Sprintf("Estimates: %d of %d merged runs took no longer than four of five were expected to "+
		"(%.0f %%; 95 %% interval %.0f to %.0f %%).", e.Held, e.Runs, 100*float64(e.Held)/float64(e.Runs), *e.Low, *e.High)
}
