package main

import (
	"context"
	"time"

	"svc/dev/seed"
)

// seedDemonstration adds the demonstration workspaces to a migrated database.
func seedDemonstration(ctx context.Context, j job) error {
	return seed.Development(ctx, j.url.Reveal(), j.seedFile, time.Now())
}
