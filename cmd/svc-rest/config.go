package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/config"
	"svc/events/bus"
	"svc/http/auth"
	"svc/http/rest/runs"
	"svc/input"
	"svc/sessions"
)

// Config is the environment of svc-rest.
type Config struct {
	// Plain HTTP: in a deployment only the web app and the farm gateway reach it.
	Addr config.Addr `env:"SVC_REST_ADDR" envDefault:":4000" doc:"Address to listen on: host:port, or fd://3 for an inherited socket (systemd socket activation, without -healthcheck). The same holds for every address to listen on."`

	// Metrics show how busy the service is: keep the address internal.
	MetricsAddr config.Addr `env:"SVC_METRICS_ADDR" doc:"Address to serve Prometheus metrics on, at /metrics, such as 127.0.0.1:4009. Keep it internal. Unset, there are none."`

	// A trusted proxy can claim any address: name the proxies, not the network that people are in.
	TrustedProxies config.CIDRs `env:"SVC_TRUSTED_PROXIES" doc:"Comma-separated addresses and networks of proxies whose X-Forwarded-For is trusted: its last address that is not in the list is the caller's, for limits, audit log and access log. Unset, it is the peer's."`

	DatabaseURL config.URL `env:"SVC_DATABASE_URL,required,notEmpty" schemes:"postgres,postgresql" doc:"PostgreSQL with the encoding UTF8, such as postgres://user:password@host:5432/svc."`

	// PgBouncer in transaction mode does not support LISTEN.
	DatabaseDirectURL config.URL `env:"SVC_DATABASE_DIRECT_URL" schemes:"postgres,postgresql" doc:"PostgreSQL itself, for LISTEN, where SVC_DATABASE_URL leads to a pooler."`

	// Tokens, sessions and rights are always read from SVC_DATABASE_URL.
	DatabaseReadURL config.URL `env:"SVC_DATABASE_READ_URL" schemes:"postgres,postgresql" doc:"A read replica for lists: runs, inbox, insights, dashboard, audit log. Opens a second pool of 24 connections."`

	EngineURL    config.URL    `env:"SVC_ENGINE_URL,required,notEmpty" schemes:"http,https" doc:"Address of svc-engine."`
	EngineSecret config.Secret `env:"SVC_ENGINE_SHARED_SECRET,required,notEmpty" min:"16" doc:"The secret of svc-engine."`

	// The address by which browsers reach the service decides whether cookies are secure.
	AuthURL    config.URL    `env:"AUTH_URL,required,notEmpty" schemes:"http,https" doc:"Public address of the web app and of sign-in: a scheme and a host alone."`
	AuthSecret config.Secret `env:"AUTH_SECRET,required,notEmpty" min:"32" doc:"Signs session cookies. A change signs everyone out."`

	// Never in production: the demonstration people's passwords are public.
	DevSignIn bool `env:"SVC_DEV_SIGN_IN" envDefault:"false" doc:"Lets the demonstration people sign in with a password. Refused together with an https AUTH_URL."`

	// The code host by which people sign in. Without a client id nobody can.
	OAuthKind         string        `env:"SVC_OAUTH_KIND" envDefault:"github" doc:"Kind of code host that people sign in at: github (also Enterprise), gitea or forgejo."`
	OAuthURL          config.URL    `env:"SVC_OAUTH_URL" envDefault:"https://github.com" schemes:"http,https" doc:"Its address for browsers: for sign-in, for links to issues and pull requests, and for repositories of jobs that are not connected."`
	OAuthAPIURL       config.URL    `env:"SVC_OAUTH_API_URL" schemes:"http,https" doc:"Address of its API. Unset, the one that belongs to the kind and address."`
	OAuthClientID     string        `env:"SVC_OAUTH_CLIENT_ID" doc:"OAuth application registered there, with the callback AUTH_URL/api/auth/callback/ and the kind. Unset, sign-in and links to the code host are off."`
	OAuthClientSecret config.Secret `env:"SVC_OAUTH_CLIENT_SECRET" doc:"Secret of that application."`

	// Never in production: members could have the service reach what only its own machine may.
	LocalCodeHosts bool `env:"SVC_ALLOW_LOCAL_CODE_HOSTS" envDefault:"false" doc:"Development only: lets repositories be at addresses of the service's own machine, and be reached by plain HTTP."`

	// Without it every stored credential is lost; keep it apart from the database's backups.
	VaultMasterKey []config.Secret `env:"SVC_VAULT_MASTER_KEY,required,notEmpty" min:"32" doc:"Encrypts stored credentials. Keep it apart from backups of the database. Comma-separated while it is changed: the first encrypts, all decrypt (docs/keys.md)."`

	// All events are published to it, for consumers in any process.
	BusURL []config.URL `env:"SVC_BUS_URL" doc:"Bus for events: nats://host:4222 or tls://host:4222 (JetStream), several servers comma-separated. Unset, it is PostgreSQL."`

	RateLimit int `env:"SVC_RATE_LIMIT" envDefault:"6000" doc:"Requests a minute for each caller. 0 turns all limits off, the daily ones too."`

	// Limits on what other people see or what cannot be deleted. A day begins at midnight UTC.
	DailyWorkspaces  int `env:"SVC_DAILY_WORKSPACES" envDefault:"20" doc:"Workspaces that a person may create per UTC day. 0 is unlimited, as for all daily limits."`
	DailyInvitations int `env:"SVC_DAILY_INVITATIONS" envDefault:"200" doc:"Invitations that a person may send or resend per UTC day."`
	DailyPerAddress  int `env:"SVC_DAILY_INVITATIONS_PER_ADDRESS" envDefault:"10" doc:"Invitations that a person, and a workspace, may send or resend to one address per UTC day."`
	DailyAccounts    int `env:"SVC_DAILY_SERVICE_ACCOUNTS" envDefault:"100" doc:"Service accounts that a person may create per UTC day."`
	DailyRotations   int `env:"SVC_DAILY_ROTATIONS" envDefault:"500" doc:"Tokens of service accounts that a person may rotate per UTC day."`
	DailyEnrollments int `env:"SVC_DAILY_ENROLLMENTS" envDefault:"500" doc:"Enrollments of runners that a person may create per UTC day."`
	DailyChanges     int `env:"SVC_DAILY_CHANGES" envDefault:"10000" doc:"All other changes together that a person may make per UTC day. Removing, revoking, cancelling and signing out do not count."`
	DailySignIns     int `env:"SVC_DAILY_SIGN_INS" envDefault:"1000" doc:"Times that a person may sign in per UTC day; a changed profile counts as one more."`

	DailyJobSpecs  int `env:"SVC_DAILY_JOB_MEBIBYTES" envDefault:"1024" doc:"MiB of job specifications, each at least 1 KiB, that a workspace may submit to one process within 24 hours, and one submitter three quarters of it. At most 1048576."`
	DailyArtifacts int `env:"SVC_DAILY_ARTIFACT_MEBIBYTES" envDefault:"65536" doc:"MiB of artifacts that runners of a workspace may declare to one process within 24 hours, three quarters of it for one submitter; further uploads wait. At most 1048576."`
	DailyLogs      int `env:"SVC_DAILY_LOG_MEBIBYTES" envDefault:"8192" doc:"MiB of job logs of a workspace that one process stores within 24 hours, three quarters of it for one submitter; further logs are cut. At most 1048576."`

	MaxActiveRuns  int     `env:"SVC_MAX_ACTIVE_RUNS" envDefault:"100" doc:"Runs of a workspace that may be active at once. Repositories have limits of their own. 0: this process moves no runs."`
	CentsPerMinute float64 `env:"SVC_FARM_CENTS_PER_MINUTE" envDefault:"0" doc:"What a minute of a runner counts in the costs of runs, in cents."`

	// A round reads all logs, in at most a twentieth of the time.
	IntegrityInterval time.Duration `env:"SVC_INTEGRITY_INTERVAL" envDefault:"5m" doc:"Interval of the background verification of logs and views, at least 1s. 0 turns it off."`

	Farm FarmConfig

	LogLevel slog.Level `env:"SVC_LOG_LEVEL" envDefault:"info" doc:"Least level that is logged: debug, info, warn or error."`
}

// check rejects settings that are well-formed but unsafe or inconsistent.
func (c Config) check() error {
	switch {
	case strings.ContainsFunc(c.AuthURL.URL().Host, func(r rune) bool { return r > unicode.MaxASCII }):
		return errors.New("AUTH_URL is malformed: want its host in ASCII, as browsers do: a name in another script in its xn-- form")
	case !c.AuthURL.IsOrigin():
		return errors.New("AUTH_URL is malformed: want a scheme and a host alone")
	case c.DevSignIn && c.AuthURL.URL().Scheme == "https":
		return errors.New("SVC_DEV_SIGN_IN must not be on where AUTH_URL is https: it lets people in whose passwords are public")
	case !slices.Contains([]string{"github", "gitea", "forgejo"}, c.OAuthKind):
		return errors.New("SVC_OAUTH_KIND is malformed: want github, gitea or forgejo")
	case c.OAuthClientID != "" && c.OAuthClientSecret == "":
		return errors.New("SVC_OAUTH_CLIENT_SECRET is missing: SVC_OAUTH_CLIENT_ID is set")
	case bus.Check(c.busURLs()) != nil:
		return fmt.Errorf("SVC_BUS_URL is malformed: %w", bus.Check(c.busURLs()))
	case c.IntegrityInterval < time.Second && c.IntegrityInterval != 0:
		return errors.New("SVC_INTEGRITY_INTERVAL is malformed: want 0, or 1s or more")
	}
	for _, bound := range []struct {
		variable string
		value    int
	}{
		{"SVC_RATE_LIMIT", c.RateLimit}, {"SVC_DAILY_WORKSPACES", c.DailyWorkspaces}, {"SVC_DAILY_INVITATIONS", c.DailyInvitations},
		{"SVC_DAILY_INVITATIONS_PER_ADDRESS", c.DailyPerAddress}, {"SVC_DAILY_SERVICE_ACCOUNTS", c.DailyAccounts},
		{"SVC_DAILY_ROTATIONS", c.DailyRotations}, {"SVC_DAILY_ENROLLMENTS", c.DailyEnrollments},
		{"SVC_DAILY_CHANGES", c.DailyChanges}, {"SVC_DAILY_SIGN_INS", c.DailySignIns},
	} {
		if bound.value < 0 {
			return fmt.Errorf("%s is malformed: want 0 or more", bound.variable)
		}
	}
	for variable, address := range map[string]config.URL{"SVC_OAUTH_URL": c.OAuthURL, "SVC_OAUTH_API_URL": c.OAuthAPIURL} {
		if u := address.URL(); u != nil && (u.User != nil || u.RawQuery != "") { // browsers and runners receive the address
			return fmt.Errorf("%s is malformed: want no user, password or query", variable)
		}
	}
	if err := c.checkDailyLimits(); err != nil {
		return err
	}
	return c.Farm.check()
}

// daily returns the daily limits.
func (c Config) daily(db *pgxpool.Pool) commands.Daily {
	if c.RateLimit == 0 {
		return commands.Daily{}
	}
	return commands.Daily{
		Workspaces: c.DailyWorkspaces, ServiceAccounts: c.DailyAccounts, Rotations: c.DailyRotations, Enrollments: c.DailyEnrollments,
		Invitations: c.DailyInvitations, InvitationsPerAddress: c.DailyPerAddress,
		Changes: c.DailyChanges, SignIns: c.DailySignIns, Counts: sessions.Daily{DB: db},
	}
}

// busURLs returns the addresses of the bus with their secrets.
func (c Config) busURLs() (list []string) {
	for _, u := range c.BusURL {
		list = append(list, u.Reveal())
	}
	return list
}

// origin returns the origin at which browsers reach the service: AUTH_URL without its path.
func (c Config) origin() string {
	return input.Origin(c.AuthURL.URL())
}

// apiURL returns the address of the code host's API.
func (c Config) apiURL() string {
	if !c.OAuthAPIURL.IsZero() {
		return c.OAuthAPIURL.Reveal()
	}
	host := c.OAuthURL.URL()
	switch {
	case c.OAuthKind != "github":
		return host.JoinPath("/api/v1").String()
	case input.Origin(host) == "https://github.com":
		return "https://api.github.com"
	}
	return host.JoinPath("/api/v3").String() // GitHub Enterprise
}

// codeHost returns the code host of people and repositories, or nil if none is configured.
func (c Config) codeHost() *runs.CodeHost {
	if c.OAuthClientID == "" {
		return nil
	}
	return &runs.CodeHost{Kind: c.OAuthKind, URL: c.OAuthURL.URL()}
}

// providers returns the code hosts with which people can sign in, by name.
func (c Config) providers() map[string]*auth.Provider {
	if c.OAuthClientID == "" {
		return nil
	}
	return map[string]*auth.Provider{
		c.OAuthKind: auth.NewProvider(c.OAuthKind, c.OAuthClientID, c.OAuthClientSecret.Reveal(), c.OAuthURL.Reveal(),
			c.apiURL(), c.origin()),
	}
}
