package main

import (
	"log/slog"

	"svc/events"
	"svc/events/store"
	"svc/farm/ingest"
	"svc/metrics"
	"svc/projections"
	"svc/sessions"
	"svc/vault"
)

// An eventLog has the log of all workspaces.
type eventLog struct {
	*store.Store
	hints *store.Hints // tells other processes of appends, and the followers of theirs
	gate  *vault.Gate  // refuses writes under another master key
}

// openLog opens the log. Its appends wake the followers.
func openLog(p parts, m *metrics.Metrics, log *slog.Logger) eventLog {
	l := eventLog{gate: vault.NewGate(p.ring, p.db.Pool)}
	l.hints = store.NewHints(p.db.Pool, p.db.direct, log, func(workspace events.ID) { p.followers.moved(workspace, 0) })
	l.Store = store.New(p.db.Pool, append(projections.Inline(), sessions.Endings{}, ingest.Leases{}), func(workspace events.ID, head int64) {
		p.followers.moved(workspace, head)
		l.hints.Moved(workspace, head)
	})
	l.Observe(m.Appends())
	l.EnableSnapshots(p.ring, log)
	l.Authenticate(p.ring)
	l.CheckLoads(p.ring, p.followers.prover.CheckSigned, log)
	l.Permit(l.gate.Pass)
	return l
}
