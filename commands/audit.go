package commands

import (
	"context"

	"svc/aggregates"
	"svc/commands/work"
	"svc/events"
)

// ExportAudit exports the audit log up to the record UpTo.
type ExportAudit struct {
	Meta   `json:"-"`
	Format string             `json:"format"`
	Filter events.AuditFilter `json:"filter"`
	UpTo   int64              `json:"upTo"`
}

func (c ExportAudit) denial() events.CommandDenied {
	return denialOf(events.AuditExported{}, c.Workspace)
}

// ExportAudit records the export before its first byte is sent. It refuses everybody but
// Owners.
func (h *Handler) ExportAudit(ctx context.Context, c ExportAudit) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace, func(_ *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
		return ws.Export(c.Actor.ID, events.AuditExported{Format: c.Format, Filter: c.Filter, UpTo: c.UpTo})
	}))
}
