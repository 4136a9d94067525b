package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"svc/events"
	"svc/farm/artifacts"
)

const (
	sweepInterval = 15 * time.Minute      // between removals of unfinished uploads
	sweepPause    = 10 * time.Millisecond // pause between jobs whose files are compared with the log
	logTimeout    = 10 * time.Second      // timeout of reading a job's files from the log
)

// artifacts opens the store in SVC_ARTIFACT_STORE, or returns nil if that is not set.
func (c Config) artifacts() (artifacts.Store, func(), error) {
	if c.Farm.ArtifactStore == "" {
		return nil, func() {}, nil
	}
	d, err := artifacts.OpenDirectory(c.Farm.ArtifactStore)
	if err != nil {
		return nil, nil, fmt.Errorf("SVC_ARTIFACT_STORE: %w", err)
	}
	return d, func() { _ = d.Close() }, nil
}

// A sweeper removes files from the artifact store that nobody will read.
type sweeper struct {
	store     artifacts.Store
	abandoned artifacts.AbandonedFunc
	leads     func() bool
	log       *slog.Logger
}

// run removes unfinished uploads until ctx ends. Once a day, if this process leads, it also removes
// files that no event recorded.
func (s sweeper) run(ctx context.Context) {
	if s.store == nil {
		return
	}
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	var unrecorded time.Time // time of the last such removal
	for {
		n, err := artifacts.Sweep(ctx, s.store, time.Now())
		s.logResult(ctx, "broken uploads", n, err)
		if s.leads() && time.Since(unrecorded) >= artifacts.UnrecordedRetention {
			began := time.Now()
			n, err := artifacts.SweepUnrecorded(ctx, s.store, s.abandonedInLog, began, sweepPause)
			if !errors.Is(err, artifacts.ErrLog) { // it is retried soon
				unrecorded = began
			}
			s.logResult(ctx, "uploads without an event", n, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// abandonedInLog reads a job's files from the log, with a timeout.
func (s sweeper) abandonedInLog(ctx context.Context, workspace, job events.ID) ([]events.ID, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	return s.abandoned(ctx, workspace, job)
}

func (s sweeper) logResult(ctx context.Context, what string, removed int, err error) {
	if err != nil && ctx.Err() == nil {
		s.log.Warn("sweep artifacts", "of", what, "err", err)
	}
	if removed > 0 {
		s.log.Info("swept artifacts", "of", what, "objects", removed)
	}
}
