package integrity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Warnings returns what operators should look at, by topic. It names no workspace, because readiness
// checks are unauthenticated.
func (c *Checker) Warnings() map[string]string {
	list := map[string]string{}
	if late, bad := c.prover.Overdue(), c.BadLogs(); late+bad > 0 {
		list["proof"] = fmt.Sprintf("Logs whose newest events are not signed: %d. Logs that differ from what was signed: %d. The service's "+
			"log names them.", late, bad)
	}
	if rows := c.DifferingRows(); len(rows) > 0 {
		var counts []string
		for _, view := range slices.Sorted(maps.Keys(rows)) {
			counts = append(counts, fmt.Sprintf("%s %d", view, rows[view]))
		}
		list["views"] = "Rows that differ from the log: " + strings.Join(counts, ", ") + ". The service's log names them."
	}
	var comparison []string
	if n := c.Uncompared(); n > 0 {
		comparison = append(comparison, fmt.Sprintf("Logs that cannot be compared completely: %d. The service's log has the reasons.", n))
	}
	if c.Overdue() {
		comparison = append(comparison, "No process makes progress in comparing logs, views and keys.")
	}
	if comparison != nil {
		list["comparison"] = strings.Join(comparison, " ")
	}
	return list
}
