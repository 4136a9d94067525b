package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/test/pgtest"
)

// Times that somebody wrote by SQL, and that Go cannot hold, do not make requests fail.
func TestPoolsReadTimesWithoutBounds(t *testing.T) {
	t.Parallel()
	var address config.URL
	require.NoError(t, address.UnmarshalText([]byte(pgtest.Empty(t))))
	d, err := openDatabase(Config{DatabaseURL: address, DatabaseReadURL: address})
	require.NoError(t, err)
	defer d.close()
	for _, text := range []string{"infinity", "-infinity"} {
		var at time.Time
		require.NoError(t, d.QueryRow(t.Context(), `select $1::text::timestamptz`, text).Scan(&at))
	}
}
