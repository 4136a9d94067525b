package metrics

import "github.com/prometheus/client_golang/prometheus"

// Overdue tells how many logs should have been signed for and are not.
func (m *Metrics) Overdue(logs func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "svc_proof_overdue_logs", Help: "Logs that have not been signed for up to where they were ten seconds ago.",
	}, func() float64 { return float64(logs()) }))
}
