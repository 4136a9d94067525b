package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"svc/projections/fold"
)

// Views exports how far followed views have come. lags is called for each scrape and queries the
// database; stuck returns the number of logs in which a view is stuck.
func (m *Metrics) Views(lags func(context.Context) ([]fold.Lag, error), stuck func() map[string]int) {
	m.registry.MustRegister(views{lags, stuck})
}

type views struct {
	lags  func(context.Context) ([]fold.Lag, error)
	stuck func() map[string]int
}

var (
	viewTaken = prometheus.NewDesc("svc_view_events_total",
		"Events that a view has applied, in all processes together.", []string{"view"}, nil)
	viewBehind = prometheus.NewDesc("svc_view_lag_events", "Events in the logs that a view has not applied yet.", []string{"view"}, nil)
	viewParked = prometheus.NewDesc("svc_view_parked_events",
		"Events that a view could not apply and has parked.", []string{"view"}, nil)
	viewStuck = prometheus.NewDesc("svc_view_stuck_logs",
		"Logs in which this process could not apply a view's next event.", []string{"view"}, nil)
)

// lagTimeout is the timeout of that query. When it is exceeded, the scrape has the other metrics.
const lagTimeout = 2 * time.Second

func (v views) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{viewTaken, viewBehind, viewParked, viewStuck} {
		to <- d
	}
}

func (v views) Collect(to chan<- prometheus.Metric) {
	for view, logs := range v.stuck() {
		to <- prometheus.MustNewConstMetric(viewStuck, prometheus.GaugeValue, float64(logs), view)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lagTimeout)
	defer cancel()
	list, err := v.lags(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(viewBehind, err)
		return
	}
	for _, l := range list {
		to <- prometheus.MustNewConstMetric(viewTaken, prometheus.CounterValue, float64(l.Taken), l.View)
		to <- prometheus.MustNewConstMetric(viewBehind, prometheus.GaugeValue, float64(l.Behind), l.View)
		to <- prometheus.MustNewConstMetric(viewParked, prometheus.GaugeValue, float64(l.Parked), l.View)
	}
}
