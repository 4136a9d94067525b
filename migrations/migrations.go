// Package migrations brings a database to the form this build expects, and
// refuses one whose history differs from the files it was built with.
//
// A migration is a file named NNNN_description.sql. Migrations only move
// forward: there is no way down but a backup. Each runs in a transaction of
// its own together with its row in schema_history, so a failed one leaves
// nothing behind and the next run starts with it again. A file whose first
// line is "-- no transaction" holds one statement that PostgreSQL refuses
// inside a transaction, such as create index concurrently; if that one fails,
// its row stays behind marked as failed and holds up every later run until
// someone has looked.
//
// The report, the checksums and the refusals are those of Flyway, so what an
// operator knows of Flyway holds here.
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

// A Set is a folder of migrations. The zero value of LockWait means a minute.
type Set struct {
	Files    fs.FS         // NNNN_description.sql at its root; other files are ignored
	LockWait time.Duration // how long Migrate waits for another run to end
}

// Migrate applies to the database of conn what is missing of this build's
// migrations and reports to out. See [Set.Migrate].
func Migrate(ctx context.Context, conn *pgx.Conn, out io.Writer) error {
	return Set{Files: embedded}.Migrate(ctx, conn, out)
}

// Current returns an error unless the database of conn is exactly as this
// build's migrations make it. See [Set.Current].
func Current(ctx context.Context, conn *pgx.Conn) error {
	return Set{Files: embedded}.Current(ctx, conn)
}

// Compare says what the database of conn is to this build's migrations. See
// [Set.State].
func Compare(ctx context.Context, conn *pgx.Conn) (State, error) {
	return Set{Files: embedded}.State(ctx, conn)
}

// Info writes a table of this build's migrations and the database's to out.
// See [Set.Info].
func Info(ctx context.Context, conn *pgx.Conn, out io.Writer) error {
	return Set{Files: embedded}.Info(ctx, conn, out)
}
