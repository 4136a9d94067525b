package migrations_test

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/migrations"
	"svc/test/pgtest"
)

func info(t *testing.T, conn *pgx.Conn, s migrations.Set) string {
	var out bytes.Buffer
	require.NoError(t, s.Info(testContext(t), conn, &out))
	return normal(conn, out.String())
}

func TestInfoOfAnEmptyDatabaseChangesNothing(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	require.Equal(t, `Database: postgresql://host:port/name (PostgreSQL version)
Schema version: << Empty Schema >>

+---------+-------------+---------+--------------+----------+
| Version | Description | State   | Installed On | Duration |
+---------+-------------+---------+--------------+----------+
| 1       | log         | Pending |              |          |
| 2       | add views   | Pending |              |          |
+---------+-------------+---------+--------------+----------+
`, info(t, conn, two))
	var table *string
	require.NoError(t, conn.QueryRow(testContext(t), "select to_regclass('schema_history')::text").Scan(&table))
	require.Nil(t, table)
}

func TestInfoShowsEveryState(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	mustMigrate(t, conn, files("0001_a.sql", "", "0003_c.sql", "", "0007_g.sql", ""))
	_, err := migrate(t, conn, files("0001_a.sql", "", "0003_c.sql", "", "0007_g.sql", "",
		"0008_h.sql", "-- no transaction\nselect 1/0;"))
	require.Error(t, err)
	require.Equal(t, `Database: postgresql://host:port/name (PostgreSQL version)
Schema version: 7

+---------+-------------+---------+---------------------+------------+
| Version | Description | State   | Installed On        | Duration   |
+---------+-------------+---------+---------------------+------------+
| 1       | a           | Missing | 2006-01-02 15:04:05 | 00:00.000s |
| 2       | b           | Ignored |                     |            |
| 3       | c           | Success | 2006-01-02 15:04:05 | 00:00.000s |
| 7       | g           | Success | 2006-01-02 15:04:05 | 00:00.000s |
| 8       | h           | Failed  | 2006-01-02 15:04:05 | 00:00.000s |
| 9       | i           | Pending |                     |            |
+---------+-------------+---------+---------------------+------------+
`, info(t, conn, files("0002_b.sql", "", "0003_c.sql", "", "0007_g.sql", "", "0009_i.sql", "")))
	require.Contains(t, info(t, conn, files("0001_a.sql", "", "0003_c.sql", "")), "| 7       | g           | Future  |")
}
