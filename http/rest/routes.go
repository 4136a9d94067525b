package rest

import (
	"slices"

	"svc/http/rest/door"
)

// sections returns the whole API in the order of the OpenAPI document.
func (s *Server) sections() []door.Section {
	return slices.Concat(
		s.runs.Routes(), []door.Section{s.dashboardRoutes(), s.streamRoutes()},
		s.people.Routes(), []door.Section{s.searchRoutes()},
		s.farm.Routes(), s.jobs.Routes(), s.audit.Routes(),
	)
}
