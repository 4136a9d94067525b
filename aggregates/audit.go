package aggregates

import (
	"svc/events"
	"svc/input"
)

// Export records an export of the audit log. It refuses callers without the right, and
// filters that contain a token.
func (w *Workspace) Export(by events.ID, e events.AuditExported) ([]events.Event, error) {
	if err := w.Allow(by, events.ExportAudit); err != nil {
		return nil, err
	}
	f := e.Filter
	if err := input.NoTokens(map[string]string{"actor": f.Actor, "action": f.Action, "target": f.Target, "q": f.Q}); err != nil {
		return nil, err
	}
	return oneEvent(e)
}
