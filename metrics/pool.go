package metrics

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Pool exports the state of a connection pool.
func (m *Metrics) Pool(name string, db *pgxpool.Pool) {
	prometheus.WrapRegistererWith(prometheus.Labels{"pool": name}, m.registry).MustRegister(pool{db})
}

type pool struct{ db *pgxpool.Pool }

var (
	poolConnections = prometheus.NewDesc("svc_database_pool_connections",
		"Connections to the database, by what they are doing.", []string{"state"}, nil)
	poolLimit    = prometheus.NewDesc("svc_database_pool_connections_limit", "Maximum number of connections.", nil, nil)
	poolAcquires = prometheus.NewDesc("svc_database_pool_acquires_total", "Connections taken from the pool.", nil, nil)
	poolWaits    = prometheus.NewDesc("svc_database_pool_waits_total",
		"Times that no connection was idle, so a caller waited for one.", nil, nil)
	poolWaited = prometheus.NewDesc("svc_database_pool_wait_seconds_total", "Time spent waiting for connections.", nil, nil)
)

func (p pool) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(p, to) }

func (p pool) Collect(to chan<- prometheus.Metric) {
	s := p.db.Stat()
	for state, n := range map[string]int32{"acquired": s.AcquiredConns(), "idle": s.IdleConns(), "constructing": s.ConstructingConns()} {
		to <- prometheus.MustNewConstMetric(poolConnections, prometheus.GaugeValue, float64(n), state)
	}
	to <- prometheus.MustNewConstMetric(poolLimit, prometheus.GaugeValue, float64(s.MaxConns()))
	to <- prometheus.MustNewConstMetric(poolAcquires, prometheus.CounterValue, float64(s.AcquireCount()))
	to <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(s.EmptyAcquireCount()))
	to <- prometheus.MustNewConstMetric(poolWaited, prometheus.CounterValue, s.EmptyAcquireWaitTime().Seconds())
}
