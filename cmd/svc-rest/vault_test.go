package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/events"
	"svc/test/pgtest"
	"svc/vault"
)

// A sealedToken is a token that is sealed in a database with some key.
type sealedToken struct {
	t       *testing.T
	db      *pgxpool.Pool
	user    events.ID
	environ string // leads svc-rest to the database
}

// opens reports whether the token can be unsealed with keys and is unchanged.
func (s *sealedToken) opens(keys ...config.Secret) bool {
	s.t.Helper()
	token, ok, err := s.tokens(keys...).Get(s.t.Context(), s.user, "github")
	if err != nil {
		require.ErrorIs(s.t, err, vault.ErrKeyChanged)
		return false
	}
	require.True(s.t, ok)
	require.Equal(s.t, config.Secret("marker-of-the-token"), token)
	return true
}

func (s *sealedToken) tokens(keys ...config.Secret) vault.Tokens {
	s.t.Helper()
	ring, err := vault.NewRing(keys)
	require.NoError(s.t, err)
	return vault.Tokens{DB: s.db, Ring: ring}
}

// newSealedToken has run svc-rest with the older key.
func newSealedToken(t *testing.T) *sealedToken {
	t.Helper()
	url := pgtest.URL(t)
	db, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	s := &sealedToken{t: t, db: db, user: events.NewID(time.Now()), environ: "SVC_DATABASE_URL=" + url}
	r := start(t, s.environ)
	require.Eventually(t, func() bool {
		rows, _ := db.Query(t.Context(), `select count(*) from vault_checks`)
		count, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		return err == nil && count == 1
	}, testTimeout, 5*time.Millisecond, "the first start remembers its key")
	require.NotContains(t, r.stop(), "level=ERROR msg=\"stored")
	require.NoError(t, s.tokens(olderKey).Put(t.Context(), s.user, "github", "marker-of-the-token"))
	return s
}

func TestChangedMasterKeyIsReportedAndServiceRuns(t *testing.T) {
	t.Parallel()
	s := newSealedToken(t)
	r := start(t, s.environ, "SVC_VAULT_MASTER_KEY="+newerKey)
	line := r.until("stored credentials cannot be opened")
	require.Contains(t, line, "level=ERROR")
	require.Contains(t, line, "SVC_VAULT_MASTER_KEY has changed: restore the previous value, or list it after the new one (new,previous)")
	require.Equal(t, http.StatusOK, r.statusOf("/health/live"))
	require.Equal(t, http.StatusOK, r.statusOf("/api/auth/get-session"))
	r.stop()
	require.True(t, s.opens(olderKey), "nothing is lost")

	// With the previous key everything is as before.
	require.NoError(t, s.tokens(olderKey).Ring.Check(t.Context(), s.db))
}

func TestKeyRotationKeepsTokensReadable(t *testing.T) {
	t.Parallel()
	s := newSealedToken(t)
	require.False(t, s.opens(newerKey))
	r := start(t, s.environ, "SVC_VAULT_MASTER_KEY="+newerKey+","+olderKey)
	require.Contains(t, r.until("resealed credentials"), "Resealed:1")
	require.NotContains(t, r.stop(), "cannot be opened")
	require.True(t, s.opens(newerKey, olderKey))

	// Now the previous key can be removed: nothing is sealed with it.
	require.True(t, s.opens(newerKey))
	require.False(t, s.opens(olderKey))
	require.NoError(t, s.tokens(newerKey).Ring.Check(t.Context(), s.db))
}
