package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

const advice = `
The database was migrated by another build than this one. Run the svc-db image ` +
	`that matches the deployment. Never edit an applied migration and never repair the history; if unsure, restore the backup.`

func TestEditedMigration(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	mustMigrate(t, conn, files("0001_a.sql", "select 1;"))
	_, err := migrate(t, conn, files("0001_a.sql", "select  1;", "0002_b.sql", "create table b ();"))
	require.EqualError(t, err, `Validate failed: Migrations have failed validation
Migration checksum mismatch for migration version 1
-> Applied to database : -690524359
-> Resolved locally : -607029245`+advice)
	require.Equal(t, []string{"1 a true"}, history(t, conn))
}

func TestRenamedMigration(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	mustMigrate(t, conn, files("0001_a.sql", "select 1;"))
	_, err := migrate(t, conn, files("0001_c.sql", "select 1;"))
	require.EqualError(t, err, `Validate failed: Migrations have failed validation
Migration description mismatch for migration version 1
-> Applied to database : a
-> Resolved locally : c`+advice)
}

func TestMissingAndSkippedMigrations(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	mustMigrate(t, conn, files("0001_a.sql", "", "0003_c.sql", ""))
	_, err := migrate(t, conn, files("0002_b.sql", "", "0003_c.sql", "", "0004_d.sql", ""))
	require.EqualError(t, err, `Validate failed: Migrations have failed validation
Detected applied migration not resolved locally: 1 (a)
Detected resolved migration not applied to database: 2 (b)`+advice)
	require.Equal(t, []string{"1 a true", "3 c true"}, history(t, conn))
}
