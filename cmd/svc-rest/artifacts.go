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
	sweepEvery = 15 * time.Minute      // between removals of what broken uploads left
	sweepRest  = 10 * time.Millisecond // between jobs whose files are looked for in the log
	askLimit   = 10 * time.Second      // for the log to say which files a job has
)

// artifacts opens the store that the variable names; nil if it names none.
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

// A sweeper removes from the artifact store what nobody will read.
type sweeper struct {
	store   artifacts.Store
	givenUp artifacts.GivenUp
	leads   func() bool
	log     *slog.Logger
}

// run removes what uploads have left that ended before their files were whole, until ctx ends,
// and once a day, where this process leads, the files of which the log never heard.
func (s sweeper) run(ctx context.Context) {
	if s.store == nil {
		return
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	var unrecorded time.Time // when they were last looked for
	for {
		n, err := artifacts.Sweep(ctx, s.store, time.Now())
		s.tell(ctx, "broken uploads", n, err)
		if s.leads() && time.Since(unrecorded) >= artifacts.Unrecorded {
			began := time.Now()
			n, err := artifacts.SweepUnrecorded(ctx, s.store, s.asked, began, sweepRest)
			if !errors.Is(err, artifacts.ErrLog) { // which is asked again soon
				unrecorded = began
			}
			s.tell(ctx, "uploads without an event", n, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// asked asks the log, and waits for its answer for so long.
func (s sweeper) asked(ctx context.Context, workspace, job events.ID) ([]events.ID, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return s.givenUp(ctx, workspace, job)
}

func (s sweeper) tell(ctx context.Context, what string, removed int, err error) {
	if err != nil && ctx.Err() == nil {
		s.log.Warn("sweep artifacts", "of", what, "err", err)
	}
	if removed > 0 {
		s.log.Info("swept artifacts", "of", what, "objects", removed)
	}
}
