package runs

import (
	"fmt"
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
)

// estimateText says what similar runs cost.
func estimateText(e client.RunEstimate) string {
	of := len(e.Runs)
	if e.CostCents == nil && e.WorkMs == nil {
		return fmt.Sprintf("No estimate yet: too few similar runs have ended (%d so far).", of)
	}
	var usual, most []string
	add := func(s *client.Spread, show func(int64) string) {
		if s != nil {
			usual, most = append(usual, show(s.P50)), append(most, show(s.P80))
		}
	}
	add(e.CostCents, kit.Cents)
	add(e.WorkMs, func(ms int64) string { return kit.Duration(kit.Millis(ms)) + " of work" })
	return fmt.Sprintf("Of %d similar runs, half took up to %s, and four of five up to %s. %d were merged.", of,
		strings.Join(usual, " and "), strings.Join(most, " and "), e.Merged)
}
