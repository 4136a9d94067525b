package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

// The expected numbers were computed with Java's BufferedReader and CRC32 and with Python's
// zlib.
func TestChecksums(t *testing.T) {
	for name, test := range map[string]struct {
		sql  string
		want int32
	}{
		"no line end":        {"select 1;", -690524359},
		"line end":           {"select 1;\n", -690524359},
		"mark and CRLF":      {"\ufeffselect 1;\r\n", -690524359},
		"another space":      {"select  1;\n", -607029245},
		"lines by LF":        {"create table a (\n    id int\n);\n", 1624602994},
		"lines by CRLF":      {"create table a (\r\n    id int\r\n);\r\n", 1624602994},
		"empty lines":        {"\n\ncreate table a (\n\n    id int\n);\n", 1624602994},
		"beyond ASCII":       {"select 'grün 🐘';\n", 2009840144},
		"mark in the middle": {"select '\ufeff';\n", -2006920197},
		"only a comment":     {"-- only a comment", 285392466},
		"nothing":            {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			conn := connect(t, pgtest.Empty(t))
			mustMigrate(t, conn, files("0001_a.sql", test.sql))
			var got int32
			require.NoError(t, conn.QueryRow(testContext(t), "select checksum from schema_history").Scan(&got))
			require.Equal(t, test.want, got)
		})
	}
}

func TestCheckedOutWithOtherLineEnds(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	mustMigrate(t, conn, files("0001_a.sql", "create table a (\n    id int\n);\n"))
	report := mustMigrate(t, conn, files("0001_a.sql", "\ufeffcreate table a (\r\n    id int\r\n);\r\n"))
	require.Contains(t, report, "No migration necessary.")
}
