package main

import (
	"log/slog"
	"time"

	"svc/loop"
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
