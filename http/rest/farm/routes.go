// Package farm serves the build farm: its machines, their enrollment, and secrets of jobs.
package farm

import (
	"svc/http/rest/door"
	"svc/projections/farmviews"
)

// A Server answers requests about the build farm.
type Server struct {
	*door.Door
	Config
	BuildFarm   farmviews.BuildFarm
	Runners     farmviews.Runners
	Enrollments farmviews.Enrollments
	FarmSecrets farmviews.FarmSecrets
}

// Routes returns the routes in the order of the OpenAPI document.
func (s *Server) Routes() []door.Section {
	return []door.Section{s.enrollmentRoutes(), s.farmRoutes(), s.runnerRoutes(), s.farmSecretRoutes()}
}
