package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"svc/config"
	"svc/http/serve"
)

// Serve answers scrapes at addr, the value of SVC_METRICS_ADDR, until stop is
// called, which waits for the last of them. With addr "" it serves nothing.
func (m *Metrics) Serve(ctx context.Context, addr config.Addr, log *slog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	ln, err := serve.Listen(ctx, "SVC_METRICS_ADDR", addr)
	if err != nil {
		return nil, err
	}
	log = log.With("listener", "metrics")
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it serves until stop, also while requests are drained
	var group sync.WaitGroup
	group.Go(func() {
		if err := (serve.Server{Handler: m.handler(log), Log: log, StopLimit: scrapeTimeout}).Run(ctx, ln); err != nil {
			log.Error("serving metrics ended", "err", err)
		}
	})
	return func() { cancel(); group.Wait() }, nil
}

// scrapeTimeout is the timeout of a scrape.
const scrapeTimeout = 5 * time.Second

// handler serves the metrics at /metrics and nothing else.
func (m *Metrics) handler(log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
		Timeout: scrapeTimeout, MaxRequestsInFlight: 4,
	}))
	return mux
}
