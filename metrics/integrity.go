package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Overdue exports the number of logs that are not signed in time.
func (m *Metrics) Overdue(logs func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "svc_proof_overdue_logs", Help: "Logs with an unsigned event that is older than ten seconds.",
	}, func() float64 { return float64(logs()) }))
}

// Integrity exports what differs from what was signed or logged. A process that does not do the
// rounds exports zeros.
func (m *Metrics) Integrity(logs func() int, rows func() map[string]int, uncompared func() int, overdue func() bool) {
	m.registry.MustRegister(integrity{logs, rows, uncompared, overdue})
}

type integrity struct {
	logs       func() int
	rows       func() map[string]int
	uncompared func() int
	overdue    func() bool
}

var (
	badLogs = prometheus.NewDesc("svc_proof_bad_logs",
		"Logs that differ from what was signed, as found by the process that compares.", nil, nil)
	differingRows = prometheus.NewDesc("svc_view_differing_rows",
		"Rows that differ from the log, as found by the process that compares.", []string{"view"}, nil)
	uncomparedLogs = prometheus.NewDesc("svc_view_uncompared_logs",
		"Logs of which something could not be compared by the process that compares.", nil, nil)
	comparisonOverdue = prometheus.NewDesc("svc_comparison_overdue",
		"1 if no process has made progress in comparing logs, views and keys for some intervals.", nil, nil)
)

func (i integrity) Describe(to chan<- *prometheus.Desc) {
	to <- badLogs
	to <- differingRows
	to <- uncomparedLogs
	to <- comparisonOverdue
}

func (i integrity) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(badLogs, prometheus.GaugeValue, float64(i.logs()))
	to <- prometheus.MustNewConstMetric(uncomparedLogs, prometheus.GaugeValue, float64(i.uncompared()))
	overdue := 0.0
	if i.overdue() {
		overdue = 1
	}
	to <- prometheus.MustNewConstMetric(comparisonOverdue, prometheus.GaugeValue, overdue)
	rows := i.rows()
	for _, view := range slices.Sorted(maps.Keys(rows)) {
		to <- prometheus.MustNewConstMetric(differingRows, prometheus.GaugeValue, float64(rows[view]), view)
	}
}
