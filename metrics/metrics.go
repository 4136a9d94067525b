// Package metrics says how a program does, in the words of Prometheus.
//
// Whoever has numbers knows nothing of it: they keep counts, or tell a
// function, and the program leads both here. A label is a word of our own: a
// route, a status, the name of a view; never what a caller or a workspace chose.
package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are those of one program. Each method that leads something here is
// called once for it.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	errors   prometheus.Counter
}

// New returns what every program tells: its version, itself as a process, and
// its requests.
func New(program, version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "svc_http_request_duration_seconds", Buckets: durations,
			Help: "Time from a request's header to the end of its answer, by route; route is \"other\" where there is none.",
		}, []string{"method", "route", "status"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "svc_http_server_errors_total", Help: "Requests that were answered with a status of 500 or more, or broken off.",
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

// durations are the buckets of whatever takes time, in seconds.
var durations = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
