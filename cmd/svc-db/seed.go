package main

import (
	"context"
	"time"

	"svc/dev/seed"
	"svc/vault"
)

// seedDemonstration adds the demonstration workspaces to a migrated database, or lets time pass in
// those that are there.
func seedDemonstration(ctx context.Context, j job) error {
	ring, err := vault.NewRing(j.vaultKeys)
	if err != nil {
		return err
	}
	if err := seed.Development(ctx, j.url.Reveal(), ring, j.seedFile, time.Now()); err != nil {
		return err
	}
	return seed.Refresh(ctx, j.url.Reveal(), ring, time.Now())
}
