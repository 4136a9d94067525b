package main

import (
	"context"
	"time"

	"svc/dev/seed"
)

// demonstrate makes the demonstration workspaces in a migrated database.
func demonstrate(ctx context.Context, j job) error {
	return seed.Development(ctx, j.url.Reveal(), j.seedFile, time.Now())
}
