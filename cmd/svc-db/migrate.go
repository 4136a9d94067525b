package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"svc/migrations"
)

// migrate applies the missing migrations, and then the seed if -seed is given.
func migrate(ctx context.Context, inv invocation) error {
	err := inv.withConnection(ctx, func(conn *pgx.Conn) error {
		return migrations.Migrate(ctx, conn, inv.out)
	})
	if err != nil || inv.seed == "" {
		return err
	}
	return seedDemonstration(ctx, inv)
}

// info lists every migration and its state.
func info(ctx context.Context, inv invocation) error {
	return inv.withConnection(ctx, func(conn *pgx.Conn) error {
		return migrations.Info(ctx, conn, inv.out)
	})
}
