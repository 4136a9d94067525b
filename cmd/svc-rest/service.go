package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/engine"
	"svc/events/store"
	"svc/http/auth"
	"svc/http/limit"
	"svc/http/rest"
	"svc/projections"
	"svc/sessions"
)

const (
	connections = 24 // to the database, unless SVC_DATABASE_URL says pool_max_conns
	signIns     = 10 // a minute from one address
)

// A service is everything that works behind the listener.
type service struct {
	handler http.Handler
	db      *pgxpool.Pool
	log     *store.Store
	stop    context.CancelFunc
	group   sync.WaitGroup
}

// newService wires the service and starts what works behind the requests. It
// does not wait for the database: until that answers, /health/ready says so.
func newService(ctx context.Context, cfg Config, log *slog.Logger) (*service, error) {
	db, err := open(cfg)
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
	follower := projections.NewFollower(db, log)
	events := store.New(db, projections.Inline(), follower.Moved)
	sessionStore := &sessions.Store{
		DB: db, Secret: []byte(cfg.AuthSecret.Reveal()), Secure: cfg.AuthURL.URL().Scheme == "https", Now: time.Now,
	}
	lastSeen := sessions.NewLastSeen(db, log)
	engineClient := engine.Client{URL: cfg.EngineURL, Secret: cfg.EngineSecret}
	api := &rest.Server{
		Commands:    commands.New(events, time.Now),
		Invitations: projections.Invitations{DB: db},
		Runs:        projections.Runs{DB: db}, Workspaces: projections.Workspaces{DB: db}, Members: projections.Members{DB: db},
		ServiceAccounts: projections.ServiceAccounts{DB: db}, Audit: projections.Audit{DB: db},
		Follower: follower, Keys: events, Sessions: sessionStore, LastSeen: lastSeen, Limit: apiLimit,
		Dependencies: map[string]rest.Check{"database": db.Ping, "engine": engineClient.Health},
		Origin:       cfg.AuthURL.URL().Scheme + "://" + cfg.AuthURL.URL().Host,
		Auth: (&auth.Server{
			Sessions: sessionStore, Passwords: sessions.Passwords{DB: db}, Limit: signInLimit, DevSignIn: cfg.DevSignIn, Log: log,
		}).Handler(),
		Now: time.Now, Log: log,
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &service{handler: api.Handler(), db: db, log: events, stop: stop}
	for _, run := range []func(context.Context){follower.Run, lastSeen.Run, api.Run} {
		s.group.Go(func() { run(background) })
	}
	s.group.Go(func() { checkEngineKey(background, engineClient, log) })
	return s, nil
}

// close ends everything, in the order in which things depend on each other,
// and returns when nothing of the service runs any more.
func (s *service) close() {
	s.log.Close()
	s.stop()
	s.group.Wait()
	s.db.Close()
}

func open(cfg Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.ParseConfig(cfg.DatabaseURL.Reveal())
	if err != nil {
		return nil, errors.New("SVC_DATABASE_URL is malformed: want a PostgreSQL address") // err may quote the password
	}
	if !cfg.DatabaseURL.URL().Query().Has("pool_max_conns") {
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
func checkEngineKey(ctx context.Context, c engine.Client, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := c.Status(ctx); errors.Is(err, engine.ErrKey) {
		log.Error("the engine refuses our key: SVC_ENGINE_SHARED_SECRET must hold the same value in both services")
	}
}
