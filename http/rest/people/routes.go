// Package people serves workspaces and who belongs to them: members, invitations and service accounts.
package people

import (
	"svc/http/rest/door"
	"svc/lookup"
	"svc/projections"
)

// A Server answers requests about people and workspaces.
type Server struct {
	*door.Door
	Invitations      projections.Invitations
	ListedWorkspaces projections.Workspaces // perhaps on a replica of the database

	members lookup.Group[projections.Ref, projections.Member] // shared by concurrent requests
}

// Routes returns the routes in the order of the OpenAPI document.
func (s *Server) Routes() []door.Section {
	return []door.Section{s.workspaceRoutes(), s.memberRoutes(), s.invitationRoutes(), s.serviceAccountRoutes()}
}
