package metrics

import "github.com/prometheus/client_golang/prometheus"

// ConnectionUsage is the state of a listener that limits its connections.
type ConnectionUsage struct {
	Connections, Handshakes int
	Refused                 map[string]int64 // refused connections, by the limit that was reached
	Failed                  int64            // handshakes
}

// Connections exports the usage of a listener's limits.
func (m *Metrics) Connections(usage func() ConnectionUsage) {
	m.registry.MustRegister(connections(usage))
}

type connections func() ConnectionUsage

var (
	openConnections    = prometheus.NewDesc("svc_connections_open", "Open connections, including those in their TLS handshake.", nil, nil)
	handshakes         = prometheus.NewDesc("svc_tls_handshakes_running", "TLS handshakes that have not ended.", nil, nil)
	failedHandshakes   = prometheus.NewDesc("svc_tls_handshakes_failed_total", "TLS handshakes that failed or took too long.", nil, nil)
	refusedConnections = prometheus.NewDesc("svc_connections_refused_total",
		"Connections that were closed at once, because all were taken, all of their address, or all handshakes.", []string{"full"}, nil)
)

func (c connections) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{openConnections, handshakes, failedHandshakes, refusedConnections} {
		to <- d
	}
}

func (c connections) Collect(to chan<- prometheus.Metric) {
	u := c()
	to <- prometheus.MustNewConstMetric(openConnections, prometheus.GaugeValue, float64(u.Connections))
	to <- prometheus.MustNewConstMetric(handshakes, prometheus.GaugeValue, float64(u.Handshakes))
	to <- prometheus.MustNewConstMetric(failedHandshakes, prometheus.CounterValue, float64(u.Failed))
	for full, n := range u.Refused {
		to <- prometheus.MustNewConstMetric(refusedConnections, prometheus.CounterValue, float64(n), full)
	}
}
