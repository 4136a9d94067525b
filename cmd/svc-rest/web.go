package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"svc/commands"
	"svc/credentials"
	"svc/engine/client"
	"svc/events/store"
	"svc/farm/artifacts"
	"svc/farm/dispatch"
	"svc/farm/jobinput"
	"svc/farm/joblog"
	"svc/farm/queue"
	"svc/farm/release"
	"svc/farm/secrets"
	"svc/http/auth"
	"svc/http/fair"
	"svc/http/hooks"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/rest"
	"svc/http/router"
	"svc/leader"
	"svc/metrics"
	"svc/migrations"
	"svc/projections"
	"svc/projections/auditlog"
	"svc/projections/farmviews"
	"svc/projections/fold"
	"svc/projections/runviews"
	"svc/sessions"
	"svc/vault"
)

const signInsPerMinute = 10 // from one address

// parts has the components of the service, which newService makes one after the other.
type parts struct {
	db         database
	ring       vault.Ring
	elections  *leader.Elections
	log        eventLog
	followers  *followers
	commands   *commands.Handler
	lastSeen   *sessions.LastSeen
	schema     *migrations.Monitor
	engine     client.Client
	releases   *release.Folder // of svc-runner
	artifacts  artifacts.Store // nil if artifacts are off
	logs       *joblog.Logs
	secrets    secrets.Secrets // of jobs
	dispatcher *dispatch.Dispatcher
	daily      dailyLimits

	credentials credentials.Store // of repositories
	hooks       *hooks.Server     // of code hosts
}

// newWeb returns the handler of the whole service. Live updates and slow answers end when ending is
// closed.
func newWeb(cfg Config, p parts, ending <-chan struct{}, m *metrics.Metrics, log *slog.Logger) (*rest.Server, http.Handler, error) {
	perCaller, err := limit.PerMinute(cfg.RateLimit)
	if err != nil {
		return nil, nil, fmt.Errorf("set limit of requests: %w", err)
	}
	perSignIn, err := limit.PerMinute(min(signInsPerMinute, cfg.RateLimit))
	if err != nil {
		return nil, nil, fmt.Errorf("set limit of sign-ins: %w", err)
	}
	m.Limit("api", perCaller.Refused)
	m.Limit("sign_in", perSignIn.Refused)
	db, f := p.db.Pool, p.followers
	store := &sessions.Store{
		DB: db, Secret: []byte(cfg.AuthSecret.Reveal()), Secure: cfg.AuthURL.URL().Scheme == "https", Now: time.Now, Log: log,
	}
	primary := primary(p.db, f.views)
	machines, err := newFarm(cfg, p, perCaller, m, log)
	if err != nil {
		return nil, nil, err
	}
	farm, err := farmRoutes(cfg, p, machines)
	if err != nil {
		return nil, nil, err
	}
	api := rest.New(rest.Config{
		Commands: p.commands, Primary: primary, Lists: lists(p.db, f.views), Prover: f.prover, Live: f.live, Keys: p.log,
		Sessions: store, LastSeen: p.lastSeen, Limit: perCaller,
		Dependencies: p.dependencies(), Warnings: p.warnings,
		Machines: machines.Operations(), BuildFarm: farm, Jobs: jobRoutes(cfg, p),
		Engine: p.engine, Credentials: p.credentials, Deliveries: p.hooks.Deliveries, LocalCodeHosts: cfg.LocalCodeHosts,
		Load: p.db.load, CodeHost: cfg.codeHost(), Origin: cfg.origin(), Ending: ending, Now: time.Now, Log: log,
	})
	reads, writes, bodies := api.Shared()
	signIns := auth.NewSignIns()
	account := auth.New(auth.Config{
		Commands: p.commands, Users: primary.Users, Accounts: projections.Accounts{DB: db},
		Workspaces: primary.Workspaces, Members: primary.Members, Invitations: primary.Invitations,
		Keys: p.log, Sessions: store, States: sessions.States{DB: db, Now: time.Now}, Passwords: sessions.Passwords{DB: db},
		Tokens: vault.Tokens{DB: db, Ring: p.ring}, Providers: cfg.providers(), Origin: cfg.origin(),
		Limit: perCaller, SignInLimit: perSignIn, Reads: reads, Bodies: bodies, Writes: writes, SignIns: signIns,
		DevSignIn: cfg.DevSignIn, Now: time.Now, Log: log,
	})
	m.Slots(slices.Concat(api.Semaphores(), machines.Bounds(), []*fair.Semaphore{signIns})...)
	releases := downloads(cfg, p.releases, log)
	mounted := mounts{
		{"/api/auth/", account.Handler()},
		{"/api/", api.Handler()},
		{"/health/", api.Health()},
		{hooks.Prefix, p.hooks.Handler()},
		{"/install.sh", releases},
		{"/runner/", releases},
		{"", redirectToApp(cfg.origin(), log)},
	}
	measured := middleware.Measured(m.Request, middleware.Traced(log, mounted))
	return api, middleware.Forwarded(cfg.trustsForwarded, middleware.TrustOrigin(cfg.TrustedProxies.Contains, measured)), nil
}

// queue returns the queue of the build farm, for routes and for the loop.
func (p parts) queue() queue.Queue {
	return queue.Queue{
		Commands: p.commands, Jobs: farmviews.Jobs{DB: p.db.Pool}, Secrets: farmviews.FarmSecrets{DB: p.db.Pool},
		Inputs: p.inputs(), Now: time.Now, SecretBytes: p.secrets.Size, Count: p.daily.jobSpecs.TakeShare,
	}
}

// views returns what commands ask about many streams at once.
func (p parts) views() commands.Views {
	runs, db := runviews.Runs{DB: p.db.Pool}, p.db.Pool
	return commands.Views{
		Turn: p.queue().Turn, KeyUse: farmviews.Jobs{DB: db}.KeyUse, LargestIssue: runs.LargestIssue, RunRepo: runs.Repo,
		Home: projections.Users{DB: db}.Home, StaleMemberships: projections.Members{DB: db}.WorkspacesWithOtherProfile,
	}
}

// inputs returns the files that jobs of runs receive.
func (p parts) inputs() jobinput.Inputs { return jobinput.Inputs{DB: p.db.Pool, Now: time.Now} }

// dependencies returns what has to answer for the service to be ready.
func (p parts) dependencies() map[string]rest.Check {
	return map[string]rest.Check{
		"engine": func(ctx context.Context) (string, error) { return "", p.engine.Health(ctx) },
		"database": func(ctx context.Context) (string, error) {
			text, err := p.schema.Check(ctx)
			if older, ok := errors.AsType[*migrations.OlderError](err); ok {
				err = rest.Down(older.Error())
			}
			if encoding, ok := errors.AsType[*store.EncodingError](err); ok {
				err = rest.Down(encoding.Error())
			}
			return text, err
		},
	}
}

// warnings returns what operators should look at although requests are answered, by topic.
func (p parts) warnings() map[string]string {
	list := p.followers.checker.Warnings()
	if text := p.schema.Warning(); text != "" {
		list["schema"] = text
	}
	if p.log.gate.Closed() {
		list["vault"] = "Changes are refused: stored credentials are sealed with another SVC_VAULT_MASTER_KEY. The service's log has details."
	}
	return list
}

// redirectToApp redirects browsers that open the service to the web app.
func redirectToApp(origin string, log *slog.Logger) http.Handler {
	routes := router.New(router.Refuse(log, router.ErrNotFound), router.Refuse(log, router.ErrMethod))
	routes.Handle(router.Route{
		Method: http.MethodGet, Path: "/", Handler: http.RedirectHandler(origin+"/w", http.StatusTemporaryRedirect),
	})
	return routes
}

// primary returns the views that are read from the database itself.
func primary(of database, follower *fold.Follower) rest.Primary {
	db := of.Pool
	return rest.Primary{
		Runs: runviews.Runs{DB: db}, Repos: projections.Repos{DB: db},
		Decisions: runviews.Decisions{DB: db}, Workspaces: projections.Workspaces{DB: db},
		Users: projections.Users{DB: db}, Members: projections.Members{DB: db}, Invitations: projections.Invitations{DB: db},
		ServiceAccounts: projections.ServiceAccounts{DB: db}, Runners: farmviews.Runners{DB: db}, Enrollments: farmviews.Enrollments{DB: db},
		Jobs: farmviews.Jobs{DB: db}, BuildFarm: farmviews.BuildFarm{DB: db}, Artifacts: farmviews.Artifacts{DB: db},
		FarmSecrets: farmviews.FarmSecrets{DB: db}, History: projections.History{DB: db}, Awaiter: follower,
	}
}

// lists returns the views for lists, which may be read from a read replica.
func lists(of database, follower *fold.Follower) rest.Lists {
	db := of.lists
	return rest.Lists{
		Runs: runviews.Runs{DB: db}, Repos: projections.Repos{DB: db},
		Decisions: runviews.Decisions{DB: db}, Audit: auditlog.Audit{DB: db},
		Insights: runviews.Insights{DB: db}, Dashboard: projections.Dashboard{DB: db}, Workspaces: projections.Workspaces{DB: db},
		Awaiter: fold.Replica{DB: db, Follower: follower},
	}
}
