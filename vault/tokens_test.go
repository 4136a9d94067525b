package vault

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

func TestTokensRoundTrip(t *testing.T) {
	t.Parallel()
	tokens := Tokens{pgtest.New(t), ringOf(t, newer, older)}
	require.NoError(t, tokens.Put(t.Context(), user(1), "github", "first"))
	require.NoError(t, tokens.Put(t.Context(), user(1), "gitlab", "elsewhere"))
	require.NoError(t, tokens.Put(t.Context(), user(2), "github", ""))
	requireToken(t, tokens, 1, "first")
	requireToken(t, tokens, 2, "")

	before := updatedAt(t, tokens.DB)
	require.NoError(t, tokens.Put(t.Context(), user(1), "github", "second"))
	requireToken(t, tokens, 1, "second")
	require.NotEqual(t, before, updatedAt(t, tokens.DB))

	for range 2 {
		require.NoError(t, tokens.Delete(t.Context(), user(1), "github"))
		_, ok, err := tokens.Get(t.Context(), user(1), "github")
		require.NoError(t, err)
		require.False(t, ok)
	}
	got, ok, err := tokens.Get(t.Context(), user(1), "gitlab")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "elsewhere", got.Reveal())
}

func TestDatabaseDoesNotHoldATokenInClear(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	put(t, db, ringOf(t, newer, older), 1, 2, "a token in clear")
	var sealed []byte
	var id string
	require.NoError(t, db.QueryRow(t.Context(), `select sealed, key_id from provider_tokens`).Scan(&sealed, &id))
	require.NotContains(t, string(sealed), "token")
	stored, err := idOf(sealed)
	require.NoError(t, err)
	require.Equal(t, id, stored.String(), "the column names the key of the value")
	require.Equal(t, ringOf(t, newer).ids()[0], id, "the first key seals")
}

func TestTokenMovedToAnotherRowDoesNotOpen(t *testing.T) {
	t.Parallel()
	tokens := Tokens{pgtest.New(t), ringOf(t, older)}
	require.NoError(t, tokens.Put(t.Context(), user(1), "github", "a token"))
	for _, to := range []row{{User: user(2), Provider: "github"}, {User: user(1), Provider: "gitlab"}} {
		_, err := tokens.DB.Exec(t.Context(), `
			insert into provider_tokens
			select $1, $2, sealed, key_id, updated_at from provider_tokens where user_id = $3 and provider = 'github'`,
			to.User, to.Provider, user(1))
		require.NoError(t, err)
		_, ok, err := tokens.Get(t.Context(), to.User, to.Provider)
		require.ErrorIs(t, err, ErrTampered, to.place())
		require.False(t, ok)
		requireHidden(t, err)
	}
	requireToken(t, tokens, 1, "a token")
}

func TestErrorsOfTheDatabaseNameTheRowAndNotTheToken(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tokens := Tokens{db, ringOf(t, older)}
	db.Close()
	_, _, err := tokens.Get(t.Context(), user(1), "github")
	for _, err := range []error{
		err,
		tokens.Put(t.Context(), user(1), "github", "a token"),
		tokens.Delete(t.Context(), user(1), "github"),
	} {
		require.ErrorContains(t, err, "provider_tokens/"+user(1).String()+"/github")
		requireHidden(t, err)
	}
}
