package main

import (
	"fmt"

	"svc/proof"
)

// warnings says what operators should look at although requests are answered. No
// caller of the API sees it, and it names no workspace: readiness asks nobody who
// they are.
func warnings(prover *proof.Prover) map[string]string {
	list := map[string]string{}
	if n := prover.Overdue(); n > 0 {
		list["proof"] = fmt.Sprintf("%d logs are not signed for. The log of the service names them.", n)
	}
	return list
}
