package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"svc/http/middleware"
)

// Request records a request that was answered.
func (m *Metrics) Request(r middleware.Request) {
	if r.Route == "" {
		r.Method, r.Route = other, other
	}
	status := strconv.Itoa(r.Status)
	if r.Status == 0 {
		status = "aborted"
	}
	m.requests.WithLabelValues(r.Method, r.Route, status).Observe(r.Took.Seconds())
	if r.Failed {
		m.errors.Inc()
	}
}

// other is the label of requests whose path has no route, whatever their method.
const other = "other"

// Limit exports how many requests a rate limit has refused.
func (m *Metrics) Limit(name string, refused func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "svc_limit_refused_total", Help: "Requests refused by a rate limit.",
		ConstLabels: prometheus.Labels{"limit": name},
	}, func() float64 { return float64(refused()) }))
}
