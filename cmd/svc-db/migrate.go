package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"svc/migrations"
)

// migrate applies the missing migrations, and then the seed if -seed is given.
func migrate(ctx context.Context, j job) error {
	err := j.withConnection(ctx, func(conn *pgx.Conn) error {
		return migrations.Migrate(ctx, conn, j.out)
	})
	if err != nil || j.seed == "" {
		return err
	}
	return seedDemonstration(ctx, j)
}

// info lists every migration and its state.
func info(ctx context.Context, j job) error {
	return j.withConnection(ctx, func(conn *pgx.Conn) error {
		return migrations.Info(ctx, conn, j.out)
	})
}
