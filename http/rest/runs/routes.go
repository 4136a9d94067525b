// Package runs serves runs, the issues and repositories that they work on, and what they ask people.
package runs

import (
	"context"

	"svc/credentials"
	"svc/engine/client"
	"svc/events"
	"svc/http/hooks"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections"
	"svc/projections/runviews"
)

// Views are the views of runs on a database.
type Views struct {
	Runs      runviews.Runs
	Repos     projections.Repos
	Decisions runviews.Decisions
}

// A Server answers requests about runs. CodeHost is optional.
type Server struct {
	*door.Door
	Views             // on the primary database
	Listed      Views // perhaps on a replica
	Insights    runviews.Insights
	CodeHost    *CodeHost         // of repositories that are not connected
	Engine      client.Client     // asks code hosts
	Credentials credentials.Store // of repositories
	Deliveries  hooks.Deliveries  // of their code hosts

	LocalCodeHosts bool // whether repositories may be on this machine, and reached by plain HTTP

	// JobStates returns the states of jobs at the build farm, by id.
	JobStates func(ctx context.Context, workspace events.ID, jobs []events.ID) (map[events.ID]*schema.JobAtFarm, error)
}

// Routes returns the routes in the order of the OpenAPI document.
func (s *Server) Routes() []door.Section {
	return []door.Section{
		s.runRoutes(), s.runEventRoutes(), s.repoRoutes(), s.backlogRoutes(), s.inboxRoutes(), s.insightRoutes(),
	}
}
