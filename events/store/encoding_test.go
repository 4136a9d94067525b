package store

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

func TestDatabaseHasToStoreUTF8(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		c, err := pgx.ParseConfig(pgtest.Encoded(t, encoding))
		require.NoError(t, err)
		RequireUTF8(c)
		_, err = pgx.ConnectConfig(t.Context(), c)
		var refused *EncodingError
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Error(), encoding)
	}
}

// Settings of a role or a database do not change what text means.
func TestTextIsExchangedAsUTF8(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	connect := func(configure func(*pgx.ConnConfig)) *pgx.Conn {
		c, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		configure(c)
		conn, err := pgx.ConnectConfig(t.Context(), c)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
		return conn
	}
	conn := connect(func(*pgx.ConnConfig) {})
	for _, setting := range []string{"client_encoding = 'LATIN1'", "standard_conforming_strings = off"} {
		_, err := conn.Exec(t.Context(), "alter database "+pgx.Identifier{conn.Config().Database}.Sanitize()+" set "+setting)
		require.NoError(t, err)
	}
	var length int
	var escape string
	require.NoError(t, connect(RequireUTF8).QueryRow(t.Context(), `select length($1), '\t'`, "é€").Scan(&length, &escape))
	require.Equal(t, 2, length)
	require.Equal(t, `\t`, escape)
}
