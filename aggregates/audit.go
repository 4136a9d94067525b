package aggregates

import (
	"svc/events"
	"svc/fault"
	"svc/input"
)

// Export lets an Owner take a copy of the audit log.
func (w *Workspace) Export(by events.ID, e events.AuditExported) ([]events.Event, error) {
	switch role := w.Role(by); {
	case role == "":
		return nil, fault.ErrTenantNotFound
	case role != events.Owner:
		return nil, ErrRoleRequired.With("required", []events.Role{events.Owner})
	}
	f := e.Filter
	if err := input.NoTokens(map[string]string{"actor": f.Actor, "action": f.Action, "target": f.Target, "q": f.Q}); err != nil {
		return nil, err
	}
	return one(e)
}
