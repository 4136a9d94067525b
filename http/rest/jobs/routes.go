// Package jobs serves the jobs of the build farm, their logs and artifacts.
package jobs

import (
	"context"
	"io"

	"svc/events"
	"svc/farm/joblog"
	"svc/http/rest/door"
	"svc/projections/farmviews"
)

// Config configures what is stored of jobs.
type Config struct {
	Logs    *joblog.Logs
	LogDays int // retention of job logs in days; 0 keeps them forever

	ArtifactDays int // retention of artifacts in days; 0 keeps them forever

	// OpenArtifact opens an artifact. It is nil if artifacts are not stored.
	OpenArtifact func(ctx context.Context, workspace, job, artifact events.ID) (io.ReadSeekCloser, error)
}

// A Server answers requests about jobs.
type Server struct {
	*door.Door
	Config
	Jobs      farmviews.Jobs
	Runners   farmviews.Runners
	Artifacts farmviews.Artifacts
}

// Routes returns the routes in the order of the OpenAPI document.
func (s *Server) Routes() []door.Section {
	return []door.Section{s.jobRoutes(), s.jobLogRoutes(), s.artifactRoutes()}
}
