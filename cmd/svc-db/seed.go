package main

import (
	"context"
	"time"

	"svc/dev/seed"
	"svc/vault"
)

// seedDemonstration adds the demonstration workspaces to a migrated database, unless they are there.
func seedDemonstration(ctx context.Context, inv invocation) error {
	ring, err := vault.NewRing(inv.vaultKeys)
	if err != nil {
		return err
	}
	if err := seed.Development(ctx, inv.url.Reveal(), ring, inv.seedFile, time.Now()); err != nil {
		return err
	}
	return seed.SubmitJobs(ctx, inv.url.Reveal(), ring, time.Now())
}
