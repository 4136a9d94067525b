package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"svc/commands"
	"svc/credentials"
	"svc/deletion"
	"svc/engine/client"
	"svc/farm/artifacts"
	"svc/farm/joblog"
	"svc/farm/secrets"
	"svc/farm/sweep"
	"svc/integrity"
	"svc/leader"
	"svc/loop"
	"svc/metrics"
	"svc/migrations"
	"svc/projections/farmviews"
	"svc/proof"
	"svc/sessions"
	"svc/vault"
)

// A service is everything behind the listener.
type service struct {
	handler http.Handler
	closers []func() // in the order in which their resources were acquired
}

// newService wires the service and starts its background work. It does not wait for the database;
// until the database answers, /health/ready reports it.
func newService(ctx context.Context, cfg Config, m *metrics.Metrics, log *slog.Logger) (s *service, err error) {
	s = &service{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var p parts
	if p.ring, err = vault.NewRing(cfg.VaultMasterKey); err != nil {
		return s, err
	}
	if p.releases, err = cfg.releases(); err != nil {
		return s, err
	}
	if p.db, err = openDatabase(cfg); err != nil {
		return s, err
	}
	s.onClose(p.db.close)
	if p.artifacts, err = cfg.openArtifacts(s.onClose); err != nil {
		return s, err
	}
	m.Pool("primary", p.db.Pool)
	if p.db.hasReplica() {
		m.Pool("read", p.db.lists)
	}
	runInBackground, stop := tasks(ctx)
	s.onClose(stop)
	p.elections = leader.New(p.db.Pool, log, append(leaseNames(), integrity.Leadership, sweep.Leadership, deletion.Leadership)...)
	p.followers = newFollowers(cfg, p, log)
	p.followers.measure(p.db, m)
	p.log = openLog(p, m, log)
	s.onClose(p.log.Close)
	// These append or use keys of the vault, which fails while the gate is closed.
	p.elections.OnlyIf(func() bool { return !p.log.gate.Closed() },
		proof.FollowerName, integrity.Leadership, sweep.Leadership, loop.MarkerName, deletion.Leadership)
	runWriters, stopWriters := tasks(ctx) // what appends ends before the log is closed
	s.onClose(stopWriters)
	p.commands = commands.New(p.log.Store, time.Now)
	p.commands.LogTo(log)
	m.Denials(p.commands.OmittedDenials)
	p.commands.Limit(cfg.daily(p.db.Pool))
	p.lastSeen, p.schema = sessions.NewLastSeen(p.db.Pool, log), migrations.NewMonitor(p.db.Pool, log)
	p.engine, p.logs = client.Client{URL: cfg.EngineURL, Secret: cfg.EngineSecret}, joblog.New(p.db.Pool, log)
	p.secrets = secrets.Secrets{Vault: vault.Secrets{DB: p.db.Pool, Ring: p.ring}, Values: p.commands.FarmSecretValues}
	p.credentials = credentials.Store{Vault: p.secrets.Vault, Repo: p.commands.Repo}
	if p.daily, err = newDailyLimits(cfg, m); err != nil {
		return s, fmt.Errorf("daily limits: %w", err)
	}
	p.commands.Views = p.views()
	p.dispatcher = newDispatcher(cfg, p, log)
	s.onClose(p.dispatcher.Close)
	m.Farm(p.dispatcher.Stats)
	scheduler := newScheduler(cfg, p, log)
	if p.hooks, err = newHooks(cfg, p, scheduler, m, log); err != nil {
		return s, err
	}
	api, web, err := newWeb(cfg, p, ctx.Done(), m, log)
	if err != nil {
		return s, err
	}
	s.handler = web

	runWriters(p.dispatcher.Run)
	runWriters(scheduler.Run)
	runWriters(p.hooks.Run)
	runWriters(deletion.New(deletion.Config{
		DB: p.db.Pool, Commands: p.commands, Prover: p.followers.prover, Artifacts: p.artifacts, Followers: leaseNames(),
		Leads: p.elections.Leads, Now: time.Now, Log: log,
	}).Run)
	p.start(ctx, runInBackground, cfg.busURLs(), log)
	runInBackground(api.Run)
	return s, nil
}

// start runs the background work that does not append with run. ctx is done when the service has
// to end, and still answers requests.
func (p parts) start(ctx context.Context, run func(func(context.Context)), busURLs []string, log *slog.Logger) {
	p.followers.run(run, busURLs, p.db, log)
	for _, f := range []func(context.Context){p.elections.Run, p.log.hints.Run, p.lastSeen.Run, p.logs.Run} {
		run(f)
	}
	run(func(background context.Context) {
		select {
		case <-ctx.Done(): // runners reconnect elsewhere while requests are still answered
			p.dispatcher.Close()
		case <-background.Done():
		}
	})
	if p.artifacts != nil {
		run(artifacts.Sweeper{
			Store: p.artifacts, Abandoned: farmviews.AbandonedArtifacts{DB: p.db.Pool, Log: p.log.Store}.Stored, Log: log,
			Leads: func() bool { return p.elections.Leads(sweep.Leadership) },
		}.Run)
	}
	run(func(ctx context.Context) { checkEngineKey(ctx, p.engine, log) })
	run(vaultCheck{ring: p.ring, gate: p.log.gate, db: p.db.Pool, log: log, pause: time.Second}.run)
}

// onClose lets close call a function before those that were added earlier.
func (s *service) onClose(f func()) { s.closers = append(s.closers, f) }

// close stops everything in the order of dependencies, and returns when nothing of the service runs
// any more.
func (s *service) close() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
}

// tasks returns a function that runs others in the background, and one that ends them and waits. They
// do not end with ctx.
func tasks(ctx context.Context) (run func(func(context.Context)), stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	run = func(f func(context.Context)) { group.Go(func() { f(ctx) }) }
	stop = func() {
		cancel()
		group.Wait()
	}
	return run, stop
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
