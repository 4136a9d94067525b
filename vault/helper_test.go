package vault

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/events"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	older = "older-key-older-key-older-key-older-key"
	newer = "newer-key-newer-key-newer-key-newer-key"
	other = "other-key-other-key-other-key-other-key"
)

func ringOf(t testing.TB, keys ...config.Secret) Ring {
	t.Helper()
	ring, err := NewRing(keys)
	require.NoError(t, err)
	return ring
}

// requireHidden requires that an error contains no key, nor the token of the tests.
func requireHidden(t testing.TB, err error) {
	t.Helper()
	require.Error(t, err)
	for _, secret := range []string{older, newer, other, "a token"} {
		require.NotContains(t, err.Error(), secret)
	}
}

// user returns the n-th user, in the order of the primary key.
func user(n int) events.ID { return events.ID{14: byte(n >> 8), 15: byte(n)} }

// put stores a github token for each user from first up to, but not including, end.
func put(t testing.TB, db *pgxpool.Pool, ring Ring, first, end int, token config.Secret) {
	t.Helper()
	for n := first; n < end; n++ {
		require.NoError(t, Tokens{db, ring}.Put(t.Context(), user(n), "github", token))
	}
}

func requireToken(t testing.TB, tokens Tokens, n int, want config.Secret) {
	t.Helper()
	got, ok, err := tokens.Get(t.Context(), user(n), "github")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want.Reveal(), got.Reveal())
}
