package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"svc/events"
	"svc/events/bus"
	"svc/events/feed"
	"svc/events/store"
	"svc/farm/dispatch"
	"svc/integrity"
	"svc/leader"
	"svc/metrics"
	"svc/projections"
	"svc/projections/fold"
	"svc/proof"
	"svc/sessions"
	"svc/vault"
)

// followers has the log and everything that follows it.
type followers struct {
	log       *store.Store
	elections *leader.Elections
	hints     *store.Hints
	views     *fold.Follower
	prover    *proof.Prover
	sweep     *integrity.Sweep
	relay     *bus.Relay
	live      *feed.Feed
	gate      *vault.Gate // refuses writes under another master key
}

func newFollowers(cfg Config, db database, ring vault.Ring, m *metrics.Metrics, log *slog.Logger) *followers {
	f := &followers{elections: leader.New(db.Pool, log, append(leaseNames(), integrity.Lease, dispatch.Lease)...)}
	f.views = fold.NewFollower(db.Pool, projections.Followed(), f.elections.Leads, log)
	f.prover = proof.New(db.Pool, ring, cfg.AuthURL.URL().Host, f.elections.Leads, log)
	f.prover.RequireAuthors()
	f.sweep = integrity.New(db.Pool, f.prover, ring, f.elections.Leads, cfg.IntegrityInterval, log)
	f.relay = bus.NewRelay(db.Pool, f.elections.Leads, log)
	f.live = feed.New(db.Pool, log)
	f.hints = store.NewHints(db.Pool, db.direct, log, func(workspace events.ID) { f.moved(workspace, 0) })
	f.log = store.New(db.Pool, append(projections.Inline(), sessions.Endings{}, dispatch.Leases{}), func(workspace events.ID, head int64) {
		f.moved(workspace, head)
		f.hints.Moved(workspace, head)
	})
	f.log.Observe(m.Appends())
	f.log.EnableSnapshots(ring, log)
	f.log.Authenticate(ring)
	f.gate = vault.NewGate(ring, db.Pool)
	f.log.Permit(f.gate.Pass)
	f.measure(db, m)
	return f
}

// moved wakes the followers of a log whose head is now at least head.
func (f *followers) moved(workspace events.ID, head int64) {
	f.views.Moved(workspace, head)
	f.prover.Moved(workspace, head)
	f.relay.Moved(workspace, head)
	f.live.Moved(workspace, head)
}

func (f *followers) measure(db database, m *metrics.Metrics) {
	lags := func(ctx context.Context) ([]fold.Lag, error) { return fold.Lags(ctx, db.Pool, leaseNames()...) }
	m.Views(lags, func() map[string]int {
		stuck := f.views.Stuck()
		stuck[proof.View], stuck[bus.View] = f.prover.Stuck(), f.relay.Stuck()
		return stuck
	})
	m.Overdue(f.prover.Overdue)
	m.Integrity(f.sweep.Logs, f.sweep.Rows, f.sweep.Uncompared, f.sweep.Overdue)
}

// run runs all followers until ctx ends.
func (f *followers) run(ctx context.Context, group *sync.WaitGroup, urls []string, db database, log *slog.Logger) {
	for _, run := range []func(context.Context){
		f.elections.Run, f.hints.Run, f.views.Run, f.prover.Run, f.sweep.Run, f.live.Run,
	} {
		group.Go(func() { run(ctx) })
	}
	group.Go(func() { bus.Run(ctx, bus.Config{URLs: urls, DB: db.Pool, Log: log}, f.relay, liveConsumer(f.live)) })
}

// leaseNames returns the names of the leases of all followers that run in one process at a time.
func leaseNames() (names []string) {
	for _, v := range projections.Followed() {
		names = append(names, v.Name())
	}
	return append(names, proof.View, bus.View)
}

// liveConsumer returns a consumer that notifies live of events appended by other processes.
func liveConsumer(live *feed.Feed) bus.Consumer {
	return bus.Consumer{Name: "live", Live: true, Knows: live.Knows, Take: func(m *message.Message) error {
		workspace, seq, err := bus.PositionOf(m)
		if err == nil {
			live.Moved(workspace, seq)
		}
		return err
	}}
}
