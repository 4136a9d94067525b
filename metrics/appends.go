package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"svc/events/store"
)

// Appends returns a function that records each batch of commits.
func (m *Metrics) Appends() func(store.Batch) {
	commits := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "svc_append_batch_commits", Help: "Commits that shared a transaction.",
		Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256},
	})
	events := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "svc_append_events_total", Help: "Events that were stored.",
	})
	waited := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "svc_append_wait_seconds", Help: "Time that the first commit of a batch waited before its transaction.", Buckets: durations,
	})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "svc_append_duration_seconds", Help: "Time that the transaction of a batch took.", Buckets: durations,
	})
	failed := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "svc_append_failures_total",
		Help: "Transactions that stored nothing: a commit of the batch could not be stored, or the database did not answer.",
	})
	m.registry.MustRegister(commits, events, waited, took, failed)
	return func(b store.Batch) {
		commits.Observe(float64(b.Commits))
		waited.Observe(b.Waited.Seconds())
		took.Observe(b.Took.Seconds())
		if b.Stored {
			events.Add(float64(b.Events))
		} else {
			failed.Inc()
		}
	}
}
