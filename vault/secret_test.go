package vault

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"svc/test/pgtest"
)

func making(secret string) func() ([]byte, string, error) {
	return func() ([]byte, string, error) { return []byte(secret), "public side of " + secret, nil }
}

var notAgain = func() ([]byte, string, error) { return nil, "", errors.New("made again") }

func TestSecretIsCreatedOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	got := make([]string, 8)
	var group errgroup.Group
	for i := range got { // replicas that start at once
		group.Go(func() error {
			secret, public, err := Secrets{db, ringOf(t, older)}.GetOrCreate(t.Context(), "key", making(fmt.Sprint("key ", i)))
			got[i] = string(secret) + public
			return err
		})
	}
	require.NoError(t, group.Wait())
	for _, g := range got {
		require.Equal(t, got[0], g)
	}
	var sealed []byte
	require.NoError(t, db.QueryRow(t.Context(), `select sealed from vault_secrets`).Scan(&sealed))
	require.False(t, bytes.Contains(sealed, []byte("key ")))
}

func TestSecretSurvivesKeyRotation(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	_, _, err := Secrets{db, ringOf(t, older)}.GetOrCreate(t.Context(), "key", making("a token"))
	require.NoError(t, err)
	for _, ring := range []Ring{ringOf(t, newer, older), ringOf(t, newer)} {
		secret, public, err := Secrets{db, ring}.GetOrCreate(t.Context(), "key", notAgain)
		require.NoError(t, err)
		require.Equal(t, "a token", string(secret))
		require.Equal(t, "public side of a token", public)
	}
	_, _, err = Secrets{db, ringOf(t, older)}.GetOrCreate(t.Context(), "key", notAgain)
	require.ErrorIs(t, err, ErrKeyChanged)
	requireHidden(t, err)
}

func TestSecretOpensOnlyInItsRow(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := Secrets{db, ringOf(t, older)}
	_, _, err := s.GetOrCreate(t.Context(), "key", making("a token"))
	require.NoError(t, err)
	_, err = db.Exec(t.Context(), `update vault_secrets set name = 'other'`)
	require.NoError(t, err)
	_, _, err = s.GetOrCreate(t.Context(), "other", notAgain)
	require.ErrorIs(t, err, ErrTampered)
	requireHidden(t, err)
	_, _, err = s.GetOrCreate(t.Context(), "third", notAgain)
	require.ErrorContains(t, err, "make secret third: made again")
}
