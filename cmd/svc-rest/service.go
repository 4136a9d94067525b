package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/config"
	"svc/engine/client"
	"svc/events"
	"svc/events/bus"
	"svc/events/feed"
	"svc/events/store"
	"svc/http/auth"
	"svc/http/home"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/rest"
	"svc/integrity"
	"svc/leader"
	"svc/metrics"
	"svc/projections"
	"svc/projections/fold"
	"svc/proof"
	"svc/sessions"
	"svc/vault"
)

const (
	connections = 24 // to the database, unless SVC_DATABASE_URL says pool_max_conns
	signIns     = 10 // a minute from one address
)

// A service is everything that works behind the listener.
type service struct {
	handler http.Handler
	db      *pgxpool.Pool
	reads   *pgxpool.Pool // db, or that of a replica
	log     *store.Store
	stop    context.CancelFunc
	group   sync.WaitGroup

	stopCommands context.CancelFunc
	commands     sync.WaitGroup // what they do by themselves; it ends before the log is closed
}

// newService wires the service and starts what works behind the requests. It
// does not wait for the database: until that answers, /health/ready says so.
func newService(ctx context.Context, cfg Config, m *metrics.Metrics, log *slog.Logger) (_ *service, err error) {
	db, err := open("SVC_DATABASE_URL", cfg.DatabaseURL)
	if err != nil {
		return nil, err
	}
	reads := db
	defer func() {
		if err == nil {
			return
		}
		if reads != nil {
			reads.Close()
		}
		db.Close()
	}()
	if !cfg.DatabaseReadURL.IsZero() {
		if reads, err = open("SVC_DATABASE_READ_URL", cfg.DatabaseReadURL); err != nil {
			return nil, err
		}
		m.Pool("read", reads)
	}
	direct, err := direct(cfg)
	if err != nil {
		return nil, err
	}
	apiLimit, err := limit.PerMinute(cfg.RateLimit)
	if err != nil {
		return nil, err
	}
	signInLimit, err := limit.PerMinute(min(signIns, cfg.RateLimit))
	if err != nil {
		return nil, err
	}
	ring, err := vault.NewRing(cfg.VaultMasterKey)
	if err != nil {
		return nil, err
	}
	elections := leader.New(db, log, append(leads(), integrity.Lease)...)
	follower := fold.NewFollower(db, projections.Followed(), elections.Leads, log)
	prover := proof.New(db, ring, cfg.AuthURL.URL().Host, elections.Leads, log)
	prover.RequireAuthors()
	sweep := integrity.New(db, prover, elections.Leads, cfg.IntegrityInterval, log)
	relay := bus.NewRelay(db, elections.Leads, log)
	live := feed.New(db, log)
	moved := func(workspace events.ID, head int64) {
		follower.Moved(workspace, head)
		prover.Moved(workspace, head)
		relay.Moved(workspace, head)
		live.Moved(workspace, head)
	}
	hints := store.NewHints(db, direct, log, func(workspace events.ID) { moved(workspace, 0) })
	events := store.New(db, append(projections.Inline(), sessions.Endings{}), func(workspace events.ID, head int64) {
		moved(workspace, head)
		hints.Moved(workspace, head)
	})
	events.Observe(m.Appends())
	events.KeepSnapshots(ring, log)
	events.Authenticate(ring)
	m.Pool("primary", db)
	m.Limit("api", apiLimit.Refused)
	m.Limit("sign_in", signInLimit.Refused)
	m.Views(func(ctx context.Context) ([]fold.Lag, error) { return fold.Lags(ctx, db, leads()...) }, func() map[string]int {
		stuck := follower.Stuck()
		stuck[proof.View], stuck[bus.View] = prover.Stuck(), relay.Stuck()
		return stuck
	})
	m.Overdue(prover.Overdue)
	m.Integrity(sweep.Logs, sweep.Rows, sweep.Uncompared)
	sessionStore := &sessions.Store{
		DB: db, Secret: []byte(cfg.AuthSecret.Reveal()), Secure: cfg.AuthURL.URL().Scheme == "https", Now: time.Now,
	}
	lastSeen := sessions.NewLastSeen(db, log)
	form := &schema{db: db, log: log}
	engineClient := client.Client{URL: cfg.EngineURL, Secret: cfg.EngineSecret}
	handler := commands.New(events, time.Now)
	handler.LogTo(log)
	handler.Limit(cfg.daily(db))
	views := rest.Views{
		Runs: projections.Runs{DB: db}, Decisions: projections.Decisions{DB: db}, Workspaces: projections.Workspaces{DB: db},
		Members: projections.Members{DB: db}, Invitations: projections.Invitations{DB: db},
		ServiceAccounts: projections.ServiceAccounts{DB: db}, History: projections.History{DB: db}, Follower: follower,
	}
	api := rest.New(rest.Config{
		Commands: handler, Views: views, Lists: lists(reads, follower), Prover: prover, Live: live, Keys: events,
		Sessions: sessionStore, LastSeen: lastSeen, Limit: apiLimit,
		Dependencies: map[string]rest.Check{"database": form.check, "engine": engineClient.Health},
		Warnings:     func() map[string]string { return warnings(prover, sweep, form) },
		Load:         func() float64 { return max(load(db), load(reads)) },
		Origin:       cfg.origin(), Ending: ctx.Done(), Now: time.Now, Log: log,
	})
	account := auth.New(auth.Config{
		Commands: handler, Accounts: projections.Accounts{DB: db},
		Workspaces: views.Workspaces, Members: views.Members, Invitations: views.Invitations,
		Keys: events, Sessions: sessionStore, States: sessions.States{DB: db, Now: time.Now}, Passwords: sessions.Passwords{DB: db},
		Tokens: vault.Tokens{DB: db, Ring: ring}, Providers: cfg.providers(), Origin: cfg.origin(),
		Limit: apiLimit, SignInLimit: signInLimit, DevSignIn: cfg.DevSignIn, Now: time.Now, Log: log,
	})
	mounted := mounts{
		{"/api/auth/", account.Handler()},
		{"/api/", api.Handler()},
		{"/health/", api.Health()},
		{"", home.Handler(cfg.provider(), log)},
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	web := middleware.Forwarded(cfg.TrustedProxies.Contains, middleware.Measured(m.Request, middleware.Traced(log, mounted)))
	m.Slots(api.Bounds()...)
	recording, stopCommands := context.WithCancel(context.WithoutCancel(ctx))
	s := &service{handler: web, db: db, reads: reads, log: events, stop: stop, stopCommands: stopCommands}
	s.commands.Go(func() { handler.Run(recording) })
	for _, run := range []func(context.Context){elections.Run, hints.Run, follower.Run, prover.Run, sweep.Run, live.Run, lastSeen.Run, api.Run} {
		s.group.Go(func() { run(background) })
	}
	s.group.Go(func() { bus.Run(background, bus.Config{URLs: cfg.busURLs(), DB: db, Log: log}, relay, updates(live)) })
	s.group.Go(func() { checkEngineKey(background, engineClient, log) })
	s.group.Go(func() { checkVault(background, ring, db, log) })
	return s, nil
}

// close ends everything, in the order in which things depend on each other,
// and returns when nothing of the service runs any more.
func (s *service) close() {
	s.stopCommands()
	s.commands.Wait()
	s.log.Close()
	s.stop()
	s.group.Wait()
	s.reads.Close()
	s.db.Close() // a pool may be closed twice
}

// leads lists what one process is enough for.
func leads() (names []string) {
	for _, v := range projections.Followed() {
		names = append(names, v.Name())
	}
	return append(names, proof.View, bus.View)
}

// lists are read in db, which may be a replica of the follower's database.
func lists(db *pgxpool.Pool, follower *fold.Follower) rest.Lists {
	return rest.Lists{
		Runs: projections.Runs{DB: db}, Decisions: projections.Decisions{DB: db}, Audit: projections.Audit{DB: db},
		Insights: projections.Insights{DB: db}, Dashboard: projections.Dashboard{DB: db},
		Views: fold.Replica{DB: db, Follower: follower},
	}
}

// updates tells live of what other processes have appended.
func updates(live *feed.Feed) bus.Consumer {
	return bus.Consumer{Name: "live", Live: true, Take: func(m *message.Message) error {
		workspace, seq, err := bus.PositionOf(m)
		if err == nil {
			live.Moved(workspace, seq)
		}
		return err
	}}
}

// load tells how much of the connections to the database is in use.
func load(db *pgxpool.Pool) float64 {
	stat := db.Stat()
	return float64(stat.AcquiredConns()) / float64(stat.MaxConns())
}

// direct is where a connection is the same one from beginning to end.
func direct(cfg Config) (*pgx.ConnConfig, error) {
	if cfg.DatabaseDirectURL.Reveal() == "" {
		cfg.DatabaseDirectURL = cfg.DatabaseURL
	}
	pool, err := pgxpool.ParseConfig(cfg.DatabaseDirectURL.Reveal())
	if err != nil {
		return nil, errors.New("SVC_DATABASE_DIRECT_URL is malformed: want a PostgreSQL address")
	}
	return pool.ConnConfig, nil
}

func open(variable string, address config.URL) (*pgxpool.Pool, error) {
	pool, err := pgxpool.ParseConfig(address.Reveal())
	if err != nil {
		return nil, fmt.Errorf("%s is malformed: want a PostgreSQL address", variable) // err may quote the password
	}
	if !address.URL().Query().Has("pool_max_conns") {
		pool.MaxConns = connections
	}
	db, err := pgxpool.NewWithConfig(context.Background(), pool)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return db, nil
}

// checkEngineKey tells operators at once when the shared secrets differ:
// readiness would not.
func checkEngineKey(ctx context.Context, c client.Client, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := c.Status(ctx); errors.Is(err, client.ErrKey) {
		log.Error("the engine refuses our key: SVC_ENGINE_SHARED_SECRET must hold the same value in both services")
	}
}

// checkVault tells operators at once when the master key has changed; the rest
// of the service goes on. What is sealed under an old key is sealed anew.
func checkVault(ctx context.Context, ring vault.Ring, db *pgxpool.Pool, log *slog.Logger) {
	if err := ring.Check(ctx, db); err != nil {
		if ctx.Err() == nil {
			log.Error("stored credentials cannot be opened", "err", err)
		}
		return
	}
	done, err := vault.Rotate(ctx, db, ring)
	switch {
	case err != nil && ctx.Err() == nil:
		log.Error("seal credentials anew", "err", err)
	case err == nil && done != (vault.Rotation{}):
		log.Info("sealed credentials anew", "rotation", done)
	}
	if n, err := store.RotateSnapshots(ctx, db, ring); err != nil && ctx.Err() == nil {
		log.Error("authenticate snapshots anew", "err", err)
	} else if n > 0 {
		log.Info("authenticated snapshots anew", "snapshots", n)
	}
}

// provider is the name of the code host that people sign in by, "" if there is none.
func (c Config) provider() string {
	if c.OAuthClientID == "" {
		return ""
	}
	return c.OAuthKind
}

// providers are the code hosts by which people sign in, by name.
func (c Config) providers() map[string]*auth.Provider {
	if c.OAuthClientID == "" {
		return nil
	}
	return map[string]*auth.Provider{
		c.OAuthKind: auth.NewProvider(c.OAuthKind, c.OAuthClientID, c.OAuthClientSecret.Reveal(), c.OAuthURL.Reveal(), c.apiURL(), c.origin()),
	}
}
