package main

import (
	"fmt"
	"log/slog"
	"time"

	"svc/http/hooks"
	"svc/http/limit"
	"svc/loop"
	"svc/metrics"
)

// newScheduler returns the scheduler, which moves runs.
func newScheduler(cfg Config, p parts, log *slog.Logger) *loop.Scheduler {
	return loop.New(loop.Config{
		DB: p.db.Pool, Marker: p.followers.marker, Events: p.log.Store, Commands: p.commands, Engine: p.engine, Queue: p.queue(),
		Artifacts: p.artifacts, Logs: p.logs, Credentials: p.credentials, Secrets: p.secrets.Reveal, Origin: cfg.origin(),
		MaxActive: cfg.MaxActiveRuns, CentsPerMinute: cfg.CentsPerMinute,
		Leads: p.elections.Leads, Ready: func() bool { return cfg.MaxActiveRuns > 0 && !p.log.gate.Closed() }, Now: time.Now, Log: log,
	})
}

// hooksPerMinute are the deliveries to a hook, and those with a wrong signature of an address.
const hooksPerMinute = 120

// newHooks returns what answers code hosts that tell of changes.
func newHooks(cfg Config, p parts, s *loop.Scheduler, m *metrics.Metrics, log *slog.Logger) (*hooks.Server, error) {
	most, err := limit.PerMinute(min(hooksPerMinute, cfg.RateLimit))
	if err != nil {
		return nil, fmt.Errorf("set limit of hooks: %w", err)
	}
	m.Limit("hooks", most.Refused)
	return hooks.New(hooks.Config{
		Keys: p.log.Store, Credentials: p.credentials, Deliveries: hooks.Deliveries{DB: p.db.Pool}, Limit: most, Look: s.Look, Log: log,
	}), nil
}
