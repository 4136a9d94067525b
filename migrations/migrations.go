// Package migrations migrates a database to the schema that this build expects, and refuses
// a database whose history differs from the files of this build.
//
// A migration is a file named NNNN_description.sql. Migrations only go forward; the only
// way back is a backup. Each runs in its own transaction together with its row in
// schema_history, so a failed one leaves nothing behind and the next run starts with it
// again. One that waits for a lock is rolled back and tried again, so that queries do not
// wait behind it. A file whose first line is "-- no transaction" has one statement that PostgreSQL
// refuses in a transaction: create or drop index concurrently. If that statement fails, its
// row remains, marked as failed, and stops all later runs until somebody has dealt with it.
//
// Reports, checksums and refusals are those of Flyway, so that operators can rely on what
// they know of it.
package migrations

import (
	"context"
	"embed"
	"io"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed *.sql
var embedded embed.FS

// A Set is a directory of migrations.
type Set struct {
	Files    fs.FS         // NNNN_description.sql at its root; other files are ignored
	LockWait time.Duration // how long Migrate waits for another run to end; 0 means a minute
}

// Migrate applies this build's missing migrations to the database of conn and reports to
// out. See [Set.Migrate].
func Migrate(ctx context.Context, conn *pgx.Conn, out io.Writer) error {
	return Set{Files: embedded}.Migrate(ctx, conn, out)
}

// Current returns an error unless the database of conn is exactly as this
// build's migrations make it. See [Set.Current].
func Current(ctx context.Context, conn *pgx.Conn) error {
	return Set{Files: embedded}.Current(ctx, conn)
}

// Compare compares the database of conn with this build's migrations. See [Set.State].
func Compare(ctx context.Context, conn *pgx.Conn) (State, error) {
	return Set{Files: embedded}.State(ctx, conn)
}

// Info writes a table of this build's and the database's migrations to out. See [Set.Info].
func Info(ctx context.Context, conn *pgx.Conn, out io.Writer) error {
	return Set{Files: embedded}.Info(ctx, conn, out)
}
