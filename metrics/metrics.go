// Package metrics exports the state of a program to Prometheus.
//
// The packages that are measured do not know this one: they keep counters or call functions, and
// the program connects them here. Label values are our own words, such as a route, a status or the
// name of a view, and never chosen by a caller or a workspace.
package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the metrics of one program. Each method that registers a source is called once for
// that source.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	errors   prometheus.Counter
}

// New returns the metrics that every program has: its version, its process, and its requests.
func New(program, version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "svc_http_request_duration_seconds", Buckets: durations,
			Help: "Time from a request's header to the end of its answer, by route; route is \"other\" where there is none.",
		}, []string{"method", "route", "status"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "svc_http_server_errors_total",
			Help: "Requests that were answered with a status of 500 or more, or whose answer broke off by an error of this program.",
		}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "svc_build_info", Help: "Always 1: which build this is.",
		ConstLabels: prometheus.Labels{"program": program, "version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(build, m.requests, m.errors, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// durations are the histogram buckets for durations, in seconds.
var durations = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
