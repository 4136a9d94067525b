package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"svc/integrity"
	"svc/proof"
	"svc/vault"
)

// warnings returns problems that operators should look at although requests are answered. It names
// no workspace, because readiness needs no authentication.
func warnings(prover *proof.Prover, sweep *integrity.Sweep, form *schemaCheck, gate *vault.Gate) map[string]string {
	list := map[string]string{}
	if late, bad := prover.Overdue(), sweep.Logs(); late+bad > 0 {
		list["proof"] = fmt.Sprintf("Logs that are not signed for: %d; that are not what was signed for: %d. The log of the service names them.", late, bad)
	}
	if text := form.warning(); text != "" {
		list["schema"] = text
	}
	if rows := sweep.Rows(); len(rows) > 0 {
		var counts []string
		for _, view := range slices.Sorted(maps.Keys(rows)) {
			counts = append(counts, fmt.Sprintf("%s %d", view, rows[view]))
		}
		list["views"] = "Rows that are not what the log says: " + strings.Join(counts, ", ") + ". The log of the service names them."
	}
	if gate.Closed() {
		list["vault"] = "Changes are refused: SVC_VAULT_MASTER_KEY is not what stored credentials are sealed with. The log of the service says more."
	}
	var comparison []string
	if n := sweep.Uncompared(); n > 0 {
		comparison = append(comparison, fmt.Sprintf("Logs of which something cannot be compared: %d. The log of the service says why.", n))
	}
	if sweep.Overdue() {
		comparison = append(comparison, "The process that should compare logs, views and keys made no progress; this one compares in its place.")
	}
	if comparison != nil {
		list["comparison"] = strings.Join(comparison, " ")
	}
	return list
}
