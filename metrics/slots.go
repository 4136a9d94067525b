package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"svc/http/fair"
)

// Slots exports the usage of semaphores and their refusals.
func (m *Metrics) Slots(bounds ...*fair.Semaphore) { m.registry.MustRegister(slots(bounds)) }

type slots []*fair.Semaphore

var (
	slotsHeld    = prometheus.NewDesc("svc_slots_held", "Slots of a limit of the process that are taken.", []string{"bound"}, nil)
	slotsWaiting = prometheus.NewDesc("svc_slots_waiting", "Requests that wait for a slot.", []string{"bound"}, nil)
	slotsRefused = prometheus.NewDesc("svc_slots_refused_total",
		"Requests that got no slot, because the caller had their share or others had all.", []string{"bound", "why"}, nil)
)

func (s slots) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, to) }

func (s slots) Collect(to chan<- prometheus.Metric) {
	for _, b := range s {
		held, waiting, refused := b.Usage()
		to <- prometheus.MustNewConstMetric(slotsHeld, prometheus.GaugeValue, float64(held), b.Bound().Name)
		to <- prometheus.MustNewConstMetric(slotsWaiting, prometheus.GaugeValue, float64(waiting), b.Bound().Name)
		to <- prometheus.MustNewConstMetric(slotsRefused, prometheus.CounterValue, float64(refused.Share), b.Bound().Name, "share")
		to <- prometheus.MustNewConstMetric(slotsRefused, prometheus.CounterValue, float64(refused.Full), b.Bound().Name, "full")
	}
}
