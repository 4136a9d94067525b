package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/engine/client"
	"svc/events/store"
	"svc/farm/artifacts"
	"svc/farm/dispatch"
	"svc/farm/joblog"
	"svc/farm/secrets"
	"svc/metrics"
	"svc/projections"
	"svc/sessions"
	"svc/vault"
)

// A service is everything behind the listener.
type service struct {
	handler        http.Handler
	db             database
	followers      *followers
	closeArtifacts func()
	stop           context.CancelFunc
	group          sync.WaitGroup

	dispatcher *dispatch.Dispatcher

	stopCommands context.CancelFunc
	commands     sync.WaitGroup // their background work; it ends before the log is closed
}

// newService wires the service and starts its background work. It does not wait for the database;
// until the database answers, /health/ready reports it.
func newService(ctx context.Context, cfg Config, m *metrics.Metrics, log *slog.Logger) (*service, error) {
	ring, err := vault.NewRing(cfg.VaultMasterKey)
	if err != nil {
		return nil, err
	}
	kept, closeArtifacts, err := cfg.artifacts()
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(cfg)
	if err != nil {
		closeArtifacts()
		return nil, err
	}
	m.Pool("primary", db.Pool)
	if db.hasReplica() {
		m.Pool("read", db.lists)
	}
	p := parts{
		db: db, followers: newFollowers(cfg, db, ring, m, log), ring: ring, lastSeen: sessions.NewLastSeen(db.Pool, log),
		secrets:   secrets.Secrets{View: projections.FarmSecrets{DB: db.Pool}, Vault: vault.Secrets{DB: db.Pool, Ring: ring}},
		artifacts: kept, engine: client.Client{URL: cfg.EngineURL, Secret: cfg.EngineSecret},
	}
	p.commands = commands.New(p.followers.log, time.Now)
	p.commands.LogTo(log)
	p.commands.Limit(cfg.daily(db.Pool))
	p.logs = joblog.New(db.Pool, log)
	p.dispatcher = newDispatcher(cfg, p, p.logs, log)
	m.Farm(p.dispatcher.Stats)
	api, web, err := newWeb(cfg, p, ctx.Done(), m, log)
	if err != nil {
		p.dispatcher.Close()
		p.followers.log.Close()
		db.close()
		closeArtifacts()
		return nil, err
	}
	s := &service{handler: web, db: db, followers: p.followers, closeArtifacts: closeArtifacts, dispatcher: p.dispatcher}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	recording, stopCommands := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.stopCommands = stop, stopCommands
	s.commands.Go(func() { p.commands.Run(recording) })
	p.followers.run(background, &s.group, cfg.busURLs(), db, log)
	s.group.Go(func() { p.lastSeen.Run(background) })
	s.group.Go(func() { p.logs.Run(background) })
	s.group.Go(func() { p.dispatcher.Run(background) })
	s.group.Go(func() {
		select {
		case <-ctx.Done(): // runners reconnect elsewhere while requests are still answered
			p.dispatcher.Close()
		case <-background.Done():
		}
	})
	s.group.Go(func() { api.Run(background) })
	s.group.Go(func() { checkEngineKey(background, p.engine, log) })
	if kept != nil {
		s.group.Go(func() {
			artifacts.Sweeper{
				Store: kept, Abandoned: projections.Artifacts{DB: db.Pool}.StoredOfAbandoned, Log: log,
				Leads: func() bool { return p.followers.elections.Leads(dispatch.Lease) },
			}.Run(background)
		})
	}
	s.group.Go(func() { checkVault(background, ring, p.followers.gate, db.Pool, log) })
	return s, nil
}

// close stops everything in the order of dependencies, and returns when nothing of the service runs
// any more.
func (s *service) close() {
	s.dispatcher.Close()
	s.stopCommands()
	s.commands.Wait()
	s.followers.log.Close()
	s.stop()
	s.group.Wait()
	s.closeArtifacts()
	s.db.close()
}

// checkEngineKey logs an error if the engine has another shared secret, which readiness does not
// reveal.
func checkEngineKey(ctx context.Context, c client.Client, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := c.Status(ctx); errors.Is(err, client.ErrKey) {
		log.Error("the engine refuses our key: SVC_ENGINE_SHARED_SECRET must hold the same value in both services")
	}
}

// checkVault logs an error if stored credentials cannot be unsealed. The service runs nevertheless, but
// gate refuses writes if the master key has changed. It reseals what is sealed with an old key.
func checkVault(ctx context.Context, ring vault.Ring, gate *vault.Gate, db *pgxpool.Pool, log *slog.Logger) {
	_ = gate.Pass(ctx) // sets the readiness warning; Check returns the reason
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
