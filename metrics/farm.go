package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"svc/farm/dispatch"
)

// Farm tells what this process does for runners.
func (m *Metrics) Farm(numbers func() dispatch.Stats) {
	m.registry.MustRegister(farm(numbers))
}

type farm func() dispatch.Stats

var (
	connectedRunners = prometheus.NewDesc("svc_farm_runners_connected", "Runners that are connected to this process.", nil, nil)
	leasedJobs       = prometheus.NewDesc("svc_farm_jobs_claimed_total", "Jobs that this process gave to runners.", nil, nil)
	takenMessages    = prometheus.NewDesc("svc_farm_messages_total", "Messages of jobs that were acknowledged.", nil, nil)
	repeatedMessages = prometheus.NewDesc("svc_farm_duplicates_total",
		"Chunks of logs that were acknowledged because they were stored before.", nil, nil)
	stoppedJobs = prometheus.NewDesc("svc_farm_stops_total", "Answers that told a runner to stop a job that is not, or no longer, its own.",
		nil, nil)
	fencedLeases = prometheus.NewDesc("svc_farm_leases_fenced_total", "Leases that were not renewed in time.", nil, nil)
)

func (f farm) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connectedRunners, leasedJobs, takenMessages, repeatedMessages, stoppedJobs, fencedLeases} {
		to <- d
	}
}

func (f farm) Collect(to chan<- prometheus.Metric) {
	n := f()
	to <- prometheus.MustNewConstMetric(connectedRunners, prometheus.GaugeValue, float64(n.Connected))
	to <- prometheus.MustNewConstMetric(leasedJobs, prometheus.CounterValue, float64(n.Leased))
	to <- prometheus.MustNewConstMetric(takenMessages, prometheus.CounterValue, float64(n.Acknowledged))
	to <- prometheus.MustNewConstMetric(repeatedMessages, prometheus.CounterValue, float64(n.Duplicates))
	to <- prometheus.MustNewConstMetric(stoppedJobs, prometheus.CounterValue, float64(n.Stops))
	to <- prometheus.MustNewConstMetric(fencedLeases, prometheus.CounterValue, float64(n.Fenced))
}
