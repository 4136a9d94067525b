package metrics

import "github.com/prometheus/client_golang/prometheus"

// Denials exports the number of refused commands that were not recorded.
func (m *Metrics) Denials(omitted func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "svc_denials_omitted_total", Help: "Refused commands that the audit log does not list because there were too many.",
	}, func() float64 { return float64(omitted()) }))
}
