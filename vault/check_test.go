package vault

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"svc/test/pgtest"
)

func TestFirstStartWritesTheCheck(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ring := ringOf(t, older)
	require.NoError(t, ring.Check(t.Context(), db))
	first := checkRow(t, db)
	require.Equal(t, ring.ids()[0], first.id)

	require.NoError(t, ring.Check(t.Context(), db))
	require.Equal(t, first, checkRow(t, db), "the next start alters nothing")
}

func TestReplicasThatStartAtOnceAgree(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var group errgroup.Group
	for range 8 {
		group.Go(func() error { return ringOf(t, older).Check(t.Context(), db) })
	}
	require.NoError(t, group.Wait())
}

func TestChangedKeyIsNamedAndARestoredOneWorksAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	require.NoError(t, ringOf(t, older).Check(t.Context(), db))
	put(t, db, ringOf(t, older), 1, 2, "a token")

	err := ringOf(t, newer).Check(t.Context(), db)
	requireChanged(t, err)
	_, _, err = Tokens{db, ringOf(t, newer)}.Get(t.Context(), user(1), "github")
	require.ErrorIs(t, err, ErrKeyChanged)
	requireHidden(t, err)

	require.NoError(t, ringOf(t, older).Check(t.Context(), db))
	requireToken(t, Tokens{db, ringOf(t, older)}, 1, "a token")
}

func TestRingOfNewAndOldRenewsTheCheck(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	require.NoError(t, ringOf(t, older).Check(t.Context(), db))

	require.NoError(t, ringOf(t, older, newer).Check(t.Context(), db))
	require.Equal(t, ringOf(t, older).ids()[0], checkRow(t, db).id, "the first key seals")
	require.NoError(t, ringOf(t, newer, older).Check(t.Context(), db))
	require.Equal(t, ringOf(t, newer).ids()[0], checkRow(t, db).id)

	require.NoError(t, ringOf(t, newer).Check(t.Context(), db), "the old key may go")
	requireChanged(t, ringOf(t, older).Check(t.Context(), db))
}

func TestKeyRemovedTooEarlyIsReported(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	require.NoError(t, ringOf(t, older).Check(t.Context(), db))
	put(t, db, ringOf(t, older), 1, 4, "a token")
	require.NoError(t, ringOf(t, newer, older).Check(t.Context(), db))

	require.NoError(t, ringOf(t, newer).Check(t.Context(), db))
	done, err := Rotate(t.Context(), db, ringOf(t, newer))
	require.NoError(t, err)
	require.True(t, done.Stuck())
	require.Len(t, done.Unopened, 3)
	require.Equal(t, []any{3, 0, int64(3)}, []any{done.Unknown, done.Tampered, done.Left})

	put(t, db, ringOf(t, newer), 1, 4, "a newer token")
	done, err = Rotate(t.Context(), db, ringOf(t, newer))
	require.NoError(t, err)
	require.Equal(t, Rotation{}, done, "all people have connected anew")
}

func TestAlteredCheckRowIsReported(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ring := ringOf(t, older)
	require.NoError(t, ring.Check(t.Context(), db))
	_, err := db.Exec(t.Context(), `update vault_checks set sealed = set_byte(sealed, 40, get_byte(sealed, 40) # 1)`)
	require.NoError(t, err)

	err = ring.Check(t.Context(), db)
	require.ErrorIs(t, err, ErrTampered)
	require.ErrorContains(t, err, "SVC_VAULT_MASTER_KEY")
	requireHidden(t, err)
}

func TestCheckWithoutADatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Close()
	err := ringOf(t, older).Check(t.Context(), db)
	requireHidden(t, err)
	require.NotErrorIs(t, err, ErrKeyChanged)
	require.NotContains(t, err.Error(), "SVC_VAULT_MASTER_KEY", "it is not the reason")
}

func requireChanged(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, ErrKeyChanged)
	require.ErrorContains(t, err, "SVC_VAULT_MASTER_KEY has changed")
	require.ErrorContains(t, err, "restore the previous value, or list it after the new one")
	requireHidden(t, err)
}

type check struct {
	sealed []byte
	id     string
}

func checkRow(t *testing.T, db *pgxpool.Pool) (row check) {
	t.Helper()
	err := db.QueryRow(t.Context(), `select sealed, key_id from vault_checks where name = 'master_key'`).Scan(&row.sealed, &row.id)
	require.NoError(t, err)
	return row
}
