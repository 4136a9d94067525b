package main

import (
	"context"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"svc/events"
	"svc/events/bus"
	"svc/events/feed"
	"svc/integrity"
	"svc/loop"
	"svc/metrics"
	"svc/projections"
	"svc/projections/fold"
	"svc/proof"
)

// followers has what follows the logs of all workspaces.
type followers struct {
	views   *fold.Follower
	prover  *proof.Prover
	checker *integrity.Checker
	relay   *bus.Relay
	live    *feed.Feed
	marker  *loop.Marker
}

func newFollowers(cfg Config, p parts, log *slog.Logger) *followers {
	db, leads := p.db.Pool, p.elections.Leads
	f := &followers{
		views:  fold.NewFollower(db, projections.Followed(), leads, log),
		prover: proof.New(db, p.ring, cfg.AuthURL.URL().Host, leads, log),
		relay:  bus.NewRelay(db, leads, log),
		live:   feed.New(db, log),
		marker: loop.NewMarker(db, leads, log),
	}
	f.checker = integrity.New(db, f.prover, leads, cfg.IntegrityInterval, log)
	return f
}

// moved wakes the followers of a log whose head is now at least head.
func (f *followers) moved(workspace events.ID, head int64) {
	f.views.Moved(workspace, head)
	f.prover.Moved(workspace, head)
	f.relay.Moved(workspace, head)
	f.live.Moved(workspace, head)
	f.marker.Moved(workspace, head)
}

func (f *followers) measure(db database, m *metrics.Metrics) {
	lags := func(ctx context.Context) ([]fold.Lag, error) { return fold.Lags(ctx, db.Pool, leaseNames()...) }
	m.Views(lags, func() map[string]int {
		stuck := f.views.Stuck()
		stuck[proof.FollowerName], stuck[bus.FollowerName] = f.prover.Stuck(), f.relay.Stuck()
		stuck[loop.MarkerName] = f.marker.Stuck()
		return stuck
	})
	m.Overdue(f.prover.Overdue)
	m.Integrity(f.checker.BadLogs, f.checker.DifferingRows, f.checker.Uncompared, f.checker.Overdue)
}

// run runs all followers with a function that runs others in the background.
func (f *followers) run(inBackground func(func(context.Context)), urls []string, db database, log *slog.Logger) {
	for _, run := range []func(context.Context){f.views.Run, f.prover.Run, f.checker.Run, f.live.Run} {
		inBackground(run)
	}
	inBackground(func(ctx context.Context) {
		bus.Run(ctx, bus.Config{URLs: urls, DB: db.Pool, Log: log}, f.relay, liveConsumer(f.live))
	})
}

// leaseNames returns the names of the leases of all followers that run in one process at a time.
func leaseNames() (names []string) {
	for _, v := range projections.Followed() {
		names = append(names, v.Name())
	}
	return append(names, proof.FollowerName, bus.FollowerName, loop.MarkerName)
}

// liveConsumer returns a consumer that notifies live of events appended by other processes.
func liveConsumer(live *feed.Feed) bus.Consumer {
	return bus.Consumer{Name: "live", Live: true, Knows: live.Knows, Handle: func(m *message.Message) error {
		workspace, seq, err := bus.PositionOf(m)
		if err == nil {
			live.Moved(workspace, seq)
		}
		return err
	}}
}
