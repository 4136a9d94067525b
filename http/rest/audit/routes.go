// Package audit serves the audit log: it is searched, exported, replayed and verified.
package audit

import (
	"svc/http/rest/door"
	"svc/projections"
	"svc/projections/auditlog"
	"svc/proof"
)

// A Server answers requests about the audit log.
type Server struct {
	*door.Door
	Audit   auditlog.Audit // perhaps on a replica of the database
	History projections.History
	Prover  *proof.Prover
}

// Routes returns the routes in the order of the OpenAPI document.
func (s *Server) Routes() []door.Section {
	return []door.Section{s.auditRoutes(), s.exportRoutes(), s.historyRoutes(), s.activityRoutes(), s.proofRoutes()}
}
