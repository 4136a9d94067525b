package aggregates

import (
	"svc/events"
	"svc/fault"
)

// Export lets an Owner take a copy of the audit log.
func (w *Workspace) Export(by events.ID, e events.AuditExported) ([]events.Event, error) {
	switch role := w.Role(by); {
	case role == "":
		return nil, fault.ErrTenantNotFound
	case role != events.Owner:
		return nil, ErrRoleRequired.With("required", []events.Role{events.Owner})
	}
	return one(e)
}
