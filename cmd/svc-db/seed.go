package main

import (
	"context"
	"time"

	"svc/dev/seed"
)

// seedDemonstration adds the demonstration workspaces to a migrated database, or lets time pass in
// those that are there.
func seedDemonstration(ctx context.Context, j job) error {
	if err := seed.Development(ctx, j.url.Reveal(), j.seedFile, time.Now()); err != nil {
		return err
	}
	return seed.Refresh(ctx, j.url.Reveal(), time.Now())
}
