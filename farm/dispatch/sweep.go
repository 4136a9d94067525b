package dispatch

import (
	"context"

	"svc/events"
	"svc/farm/sweep"
)

// Run sweeps periodically while this process is the leader, until ctx ends or the dispatcher is closed.
func (d *Dispatcher) Run(ctx context.Context) { d.sweep().Run(ctx) }

// SweepOnce sweeps once, whoever is the leader, for tests here and in test/plans.
func (d *Dispatcher) SweepOnce(ctx context.Context) { d.sweep().Once(ctx) }

func (d *Dispatcher) sweep() sweep.Config {
	return sweep.Config{
		DB: d.DB, Commands: d.Commands, Logs: d.Logs, Leads: d.Leads, Now: d.Now, Stopping: d.stopping, RemoveFiles: d.RemoveFiles,
		Decline: func(ctx context.Context, workspace, runner events.ID, reason string) error {
			_, _, err := d.recordDecline(ctx, workspace, runner, reason)
			return err
		},
		Announcements: d.announcements.limit, Fenced: func(n int64) { d.counts.fenced.Add(n) }, Warn: d.warn,
		LogRetention: d.LogRetention, ArtifactRetention: d.ArtifactRetention,
		LeaseTime: d.LeaseTime, OfflineAfter: d.OfflineAfter, SweepEvery: d.SweepEvery,
	}
}
