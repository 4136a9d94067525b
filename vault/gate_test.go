package vault

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/fault"
	"svc/test/pgtest"
)

func TestGateIsClosedUnderAnotherKey(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	right := NewGate(ringOf(t, older), db)
	require.NoError(t, right.Pass(t.Context()))

	wrong := NewGate(ringOf(t, newer), db)
	require.False(t, wrong.Closed(), "nothing is known yet")
	err := wrong.Pass(t.Context())
	require.ErrorIs(t, err, fault.ErrUnavailable)
	requireChanged(t, err)
	require.True(t, wrong.Closed())
	require.NoError(t, NewGate(ringOf(t, newer, older), db).Pass(t.Context()))

	require.NoError(t, right.Pass(t.Context()), "another process rotates the key")
	require.False(t, right.Closed())
}

func TestGateOpensOnceTheKeyIsReplaced(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	require.NoError(t, ringOf(t, older).Check(t.Context(), db))
	gate := NewGate(ringOf(t, newer), db)
	require.Error(t, gate.Pass(t.Context()))

	_, err := ringOf(t, newer).ForgetUnopenable(t.Context(), db)
	require.NoError(t, err)
	require.NoError(t, gate.Pass(t.Context()))
	require.False(t, gate.Closed())
}

func TestGateWithoutADatabaseChecksAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Close()
	gate := NewGate(ringOf(t, older), db)
	err := gate.Pass(t.Context())
	requireHidden(t, err)
	require.NotErrorIs(t, err, fault.ErrUnavailable)
	require.False(t, gate.Closed())
}

func TestNothingIsSealedUnderAnotherKey(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	require.NoError(t, ringOf(t, older).Check(t.Context(), db))
	wrong := ringOf(t, newer)

	err := Tokens{db, wrong}.Put(t.Context(), user(1), "github", "a token")
	require.ErrorIs(t, err, fault.ErrUnavailable)
	requireChanged(t, err)
	err = Secrets{db, wrong}.Put(t.Context(), "secret", []byte("a token"))
	require.ErrorIs(t, err, fault.ErrUnavailable)
	requireChanged(t, err)
	var rows int
	require.NoError(t, db.QueryRow(t.Context(), `
		select (select count(*) from provider_tokens) + (select count(*) from vault_secrets)`).Scan(&rows))
	require.Zero(t, rows)
}
