package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"svc/farm/artifacts"
)

// sweepEvery is how often what broken uploads left is removed.
const sweepEvery = 15 * time.Minute

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

// sweepArtifacts removes what uploads have left that ended before their files were
// whole, until ctx ends.
func sweepArtifacts(ctx context.Context, store artifacts.Store, log *slog.Logger) {
	if store == nil {
		return
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		n, err := artifacts.Sweep(ctx, store, time.Now())
		switch {
		case err != nil && ctx.Err() == nil:
			log.Warn("sweep artifacts", "err", err)
		case n > 0:
			log.Info("swept artifacts", "objects", n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
