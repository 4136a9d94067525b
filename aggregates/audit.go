package aggregates

import (
	"svc/events"
	"svc/input"
)

// Export lets whoever may take a copy of the audit log, unless what it is filtered by
// holds a token.
func (w *Workspace) Export(by events.ID, e events.AuditExported) ([]events.Event, error) {
	if err := w.Allow(by, events.ExportAudit); err != nil {
		return nil, err
	}
	f := e.Filter
	if err := input.NoTokens(map[string]string{"actor": f.Actor, "action": f.Action, "target": f.Target, "q": f.Q}); err != nil {
		return nil, err
	}
	return one(e)
}
