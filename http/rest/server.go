// Package rest serves the REST API under /api/v1, its OpenAPI document, and the health endpoints. It assembles its
// wings, in which each noun has a file with its routes, guards, descriptions, examples, answer types and handlers,
// and has what sees all of them: the dashboard, search and live updates.
package rest

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"svc/commands"
	"svc/credentials"
	"svc/engine/client"
	"svc/events"
	"svc/events/feed"
	"svc/http/hooks"
	"svc/http/limit"
	"svc/http/openapi"
	"svc/http/rest/audit"
	"svc/http/rest/door"
	"svc/http/rest/farm"
	"svc/http/rest/jobs"
	"svc/http/rest/people"
	"svc/http/rest/runs"
	"svc/lookup"
	"svc/projections"
	"svc/projections/auditlog"
	"svc/projections/farmviews"
	"svc/projections/runviews"
	"svc/proof"
	"svc/sessions"
)

// Config configures a Server. Limit, Warnings, Machines, CodeHost and BuildFarm are optional.
type Config struct {
	Commands     *commands.Handler
	Primary      Primary
	Lists        Lists
	Prover       *proof.Prover
	Live         *feed.Feed
	Keys         door.Keys
	Sessions     *sessions.Store
	LastSeen     *sessions.LastSeen
	Limit        *limit.Limit // request rate of each caller; nil means unlimited
	Dependencies map[string]Check
	Warnings     func() map[string]string // messages to operators, by name; may be nil
	Load         func() float64           // use of the database connections: 0 is idle, at 1 requests wait
	CodeHost     *runs.CodeHost           // of repositories that are not connected; may be nil
	Engine       client.Client            // asks code hosts
	Credentials  credentials.Store        // of repositories
	Deliveries   hooks.Deliveries         // of their code hosts

	LocalCodeHosts bool // whether repositories may be on this machine, and reached by plain HTTP

	Origin    string            // address of the service for browsers, such as https://svc.example.com
	Ending    <-chan struct{}   // closed when the service stops, which ends streams
	Machines  []openapi.Mounted // routes of build machines, served by the same router and document
	BuildFarm farm.Config
	Jobs      jobs.Config
	Now       func() time.Time
	Log       *slog.Logger
}

// Primary has the views on the primary database: all inline ones, and the followed ones that writes
// read or show in their answers.
type Primary struct {
	Runs            runviews.Runs
	Repos           projections.Repos
	Decisions       runviews.Decisions
	Workspaces      projections.Workspaces
	Users           projections.Users
	Members         projections.Members
	Invitations     projections.Invitations
	ServiceAccounts projections.ServiceAccounts
	Runners         farmviews.Runners
	Jobs            farmviews.Jobs
	BuildFarm       farmviews.BuildFarm
	Enrollments     farmviews.Enrollments
	Artifacts       farmviews.Artifacts
	FarmSecrets     farmviews.FarmSecrets
	History         projections.History
	Awaiter         door.Awaiter // of the followed views
}

// Lists has the followed views that GETs read, perhaps from a replica of the database. Authorization and
// writes never read them.
type Lists struct {
	Runs       runviews.Runs
	Repos      projections.Repos
	Decisions  runviews.Decisions
	Audit      auditlog.Audit
	Insights   runviews.Insights
	Dashboard  projections.Dashboard
	Workspaces projections.Workspaces
	Awaiter    door.Awaiter // of the database that has these views
}

// A Server answers API requests.
type Server struct {
	*door.Door
	Config

	health *health
	runs   *runs.Server
	people *people.Server
	jobs   *jobs.Server
	farm   *farm.Server
	audit  *audit.Server

	// Look-ups that concurrent requests share.
	positions lookup.Group[events.ID, string]
}

// New returns a server that is ready to answer.
func New(c Config) *Server {
	door := door.New(door.Config{
		Commands: c.Commands, Sessions: c.Sessions, LastSeen: c.LastSeen, Limit: c.Limit, Keys: c.Keys,
		Members: c.Primary.Members, ServiceAccounts: c.Primary.ServiceAccounts, Users: c.Primary.Users, Workspaces: c.Primary.Workspaces,
		Primary: c.Primary.Awaiter, Replica: c.Lists.Awaiter,
		FarmOn: c.BuildFarm.On, Live: c.Live, Origin: c.Origin, Ending: c.Ending, Now: c.Now, Log: c.Log,
	})
	s := &Server{
		Door: door, Config: c, health: newHealth(c.Dependencies, c.Warnings, c.Log),
		people: &people.Server{Door: door, Invitations: c.Primary.Invitations, ListedWorkspaces: c.Lists.Workspaces},
		audit:  &audit.Server{Door: door, Audit: c.Lists.Audit, History: c.Primary.History, Prover: c.Prover},
	}
	s.runs = &runs.Server{
		Door: door, Insights: c.Lists.Insights,
		Views:    runs.Views{Runs: c.Primary.Runs, Repos: c.Primary.Repos, Decisions: c.Primary.Decisions},
		Listed:   runs.Views{Runs: c.Lists.Runs, Repos: c.Lists.Repos, Decisions: c.Lists.Decisions},
		CodeHost: c.CodeHost, Engine: c.Engine, Credentials: c.Credentials, Deliveries: c.Deliveries, LocalCodeHosts: c.LocalCodeHosts,
	}
	s.jobs = &jobs.Server{
		Door: door, Config: c.Jobs,
		Jobs: c.Primary.Jobs, Runners: c.Primary.Runners, Artifacts: c.Primary.Artifacts,
	}
	s.runs.JobStates = s.jobs.JobStates
	s.farm = &farm.Server{
		Door: door, Config: c.BuildFarm,
		BuildFarm: c.Primary.BuildFarm, Runners: c.Primary.Runners, Enrollments: c.Primary.Enrollments, FarmSecrets: c.Primary.FarmSecrets,
	}
	return s
}

// Run records stale token uses and checks dependencies in the background until ctx ends. Call it once.
func (s *Server) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { s.Door.Run(ctx) })
	group.Go(func() { s.health.run(ctx) })
	group.Wait()
}
