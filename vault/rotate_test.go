package vault

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"svc/config"
	"svc/test/pgtest"
)

func TestRotateSealsAnewWhatIsUnderOldKeys(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const all = batchSize + 20
	put(t, db, ringOf(t, older), 0, all, "a token") // user(0) is the zero id, which sorts first
	put(t, db, ringOf(t, newer), all, all+5, "a newer token")
	before := updatedAt(t, db)

	done, err := Rotate(t.Context(), db, ringOf(t, newer, older))
	require.NoError(t, err)
	require.Equal(t, Rotation{Resealed: all}, done)
	require.Equal(t, before, updatedAt(t, db), "the tokens are as old as they were")
	for n := range all {
		requireToken(t, Tokens{db, ringOf(t, newer)}, n, "a token")
	}

	done, err = Rotate(t.Context(), db, ringOf(t, newer, older))
	require.NoError(t, err)
	require.Equal(t, Rotation{}, done, "a second time there is nothing to do")
	require.NoError(t, ringOf(t, newer).Check(t.Context(), db), "the old key may go")
}

func TestRotateLeavesAloneWhatDoesNotOpen(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	put(t, db, ringOf(t, older), 1, 4, "a token")
	put(t, db, ringOf(t, other), 4, 6, "a token")
	_, err := db.Exec(t.Context(), `update provider_tokens set sealed = set_byte(sealed, 40, get_byte(sealed, 40) # 1) where user_id = $1`,
		user(2))
	require.NoError(t, err)

	done, err := Rotate(t.Context(), db, ringOf(t, newer, older))
	require.NoError(t, err)
	require.Equal(t, Rotation{Resealed: 2, Unknown: 2, Tampered: 1, Left: 3, Unopened: []string{
		tokenPlace(user(2), "github"), tokenPlace(user(4), "github"), tokenPlace(user(5), "github"),
	}}, done)
	require.True(t, done.Stuck())
	done.Left++ // stored under an earlier key meanwhile
	require.False(t, done.Stuck())
	require.False(t, Rotation{}.Stuck())
	requireToken(t, Tokens{db, ringOf(t, other)}, 4, "a token")
}

func TestRotateSealsSecretsAnew(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const all = batchSize + 5
	for n := range all {
		name, create := fmt.Sprintf("farm_authority/%03d", n), making(fmt.Sprint("secret ", n))
		_, _, err := Secrets{db, ringOf(t, older)}.GetOrCreate(t.Context(), name, create)
		require.NoError(t, err)
	}
	_, _, err := Secrets{db, ringOf(t, other)}.GetOrCreate(t.Context(), "proof", making("lost"))
	require.NoError(t, err)
	_, _, err = Secrets{db, ringOf(t, other)}.GetOrCreate(t.Context(), "proof"+FormerSuffix, making("lost before"))
	require.NoError(t, err)

	done, err := Rotate(t.Context(), db, ringOf(t, newer, older))
	require.NoError(t, err)
	require.Equal(t, Rotation{Resealed: all, Unknown: 1, Left: 1, Unopened: []string{"vault_secrets/proof"}}, done)
	for n := range all {
		secret, public, err := Secrets{db, ringOf(t, newer)}.GetOrCreate(t.Context(), fmt.Sprintf("farm_authority/%03d", n), notAgain)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("secret ", n), string(secret))
		require.Equal(t, fmt.Sprint("public side of secret ", n), public)
	}
	lost, err := Secrets{db, ringOf(t, newer)}.Lost(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []string{"proof"}, lost)
	lost, err = Secrets{db, ringOf(t, older)}.Lost(t.Context(), "farm_authority/")
	require.NoError(t, err)
	require.Len(t, lost, all)
}

// Which key a value is sealed under is in the sealed value. Nobody makes an operator remove a key that is still needed
// by changing the column beside it.
func TestColumnOfKeysDecidesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	put(t, db, ringOf(t, older), 1, 3, "a token")
	for _, name := range []string{"farm_authority/1", "proof"} {
		_, _, err := Secrets{db, ringOf(t, older)}.GetOrCreate(t.Context(), name, making("a secret"))
		require.NoError(t, err)
	}
	require.NoError(t, ringOf(t, older).Check(t.Context(), db))
	forge := func(key config.Secret) {
		t.Helper()
		for _, table := range []string{"provider_tokens", "vault_secrets", "vault_checks"} {
			tag, err := db.Exec(t.Context(), `update `+table+` set key_id = $1`, ringOf(t, key).ids()[0])
			require.NoError(t, err)
			require.Positive(t, tag.RowsAffected())
		}
	}
	forge(newer)
	ring := ringOf(t, newer, older)
	lost, err := Secrets{db, ringOf(t, newer)}.Lost(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, lost, 2)
	require.NoError(t, ring.Check(t.Context(), db))
	_, _, err = Secrets{db, ring}.GetOrCreate(t.Context(), "proof", notAgain) // seals it anew
	require.NoError(t, err)
	done, err := Rotate(t.Context(), db, ring)
	require.NoError(t, err)
	require.Equal(t, Rotation{Resealed: 3}, done)

	forge(other)
	done, err = Rotate(t.Context(), db, ring)
	require.NoError(t, err)
	require.Equal(t, Rotation{}, done)
	lost, err = Secrets{db, ringOf(t, newer)}.Lost(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, lost)
	forgotten, err := ringOf(t, newer).ForgetUnopenable(t.Context(), db)
	require.NoError(t, err)
	require.Zero(t, forgotten)
	requireToken(t, Tokens{db, ringOf(t, newer)}, 1, "a token")
	_, _, err = Secrets{db, ringOf(t, newer)}.GetOrCreate(t.Context(), "proof", notAgain)
	require.NoError(t, err)
	require.NoError(t, ringOf(t, newer).Check(t.Context(), db))
}

// In each step of a rotation, replicas before and after it open what the other seals.
func TestReplicasOpenEachOthersSecretsDuringARotation(t *testing.T) {
	t.Parallel()
	before := ringOf(t, older)
	for _, after := range []Ring{ringOf(t, older, newer), ringOf(t, newer, older), ringOf(t, newer)} {
		for seals, opens := range map[*Ring]*Ring{&before: &after, &after: &before} {
			sealed, err := seals.Seal("a place", []byte("a secret"))
			require.NoError(t, err)
			_, err = opens.Open("a place", sealed)
			require.NoError(t, err)
			mac, err := seals.MAC("a place", []byte("a text"))
			require.NoError(t, err)
			require.NoError(t, opens.CheckMAC("a place", []byte("a text"), mac))
		}
		before = after
	}
}

func TestRotateDoesNotUndoWhatWasPutMeanwhile(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ring := ringOf(t, newer, older)
	put(t, db, ringOf(t, older), 1, 6, "a token")
	rows, err := rowsAfter(t.Context(), db, ring, row{})
	require.NoError(t, err)
	require.Len(t, rows, 5)

	put(t, db, ring, 1, 2, "put by a new replica")
	put(t, db, ringOf(t, older), 2, 3, "put by an old replica")
	require.NoError(t, Tokens{db, ring}.Delete(t.Context(), user(3), "github"))
	var done Rotation
	require.NoError(t, done.reseal(t.Context(), db, ring, rows))

	require.Equal(t, Rotation{Resealed: 2, Overtaken: 3}, done)
	requireToken(t, Tokens{db, ring}, 1, "put by a new replica")
	requireToken(t, Tokens{db, ring}, 2, "put by an old replica")
	_, ok, err := Tokens{db, ring}.Get(t.Context(), user(3), "github")
	require.NoError(t, err)
	require.False(t, ok, "deleted stays deleted")

	done, err = Rotate(t.Context(), db, ring)
	require.NoError(t, err)
	require.Equal(t, Rotation{Resealed: 1}, done, "the old replica's is done the next time")
}

func TestRotateGoesOnWhereItWasInterrupted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ring := ringOf(t, newer, older)
	const all = batchSize + 20
	put(t, db, ringOf(t, older), 0, all, "a token")

	// A row of the second batch is locked, so the rotation waits for it.
	tx, err := db.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), `select from provider_tokens where user_id = $1 for update`, user(batchSize+10))
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	var first Rotation
	var group errgroup.Group
	group.Go(func() (err error) {
		first, err = Rotate(ctx, db, ring)
		return err
	})
	requireLockWait(t, db, true)
	cancel()
	err = group.Wait()
	require.ErrorIs(t, err, context.Canceled)
	requireHidden(t, err)
	requireLockWait(t, db, false) // the server has given up as well
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, Rotation{Resealed: batchSize}, first)

	second, err := Rotate(t.Context(), db, ring)
	require.NoError(t, err)
	require.Equal(t, Rotation{Resealed: all - batchSize}, second)
	require.NoError(t, ringOf(t, newer).Check(t.Context(), db))
}

func TestRotateAmongWritersAndReplicas(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ring := ringOf(t, newer, older)
	const all = 2*batchSize + 40
	put(t, db, ringOf(t, older), 0, all, "as it was")

	// Each writer stores tokens for every other one of a third of the users.
	ctx, stop := context.WithCancel(t.Context())
	last := [all]config.Secret{}
	var writers, replicas errgroup.Group
	var begun sync.WaitGroup
	for w := range 3 {
		begun.Add(1)
		mine := last[w*all/3 : (w+1)*all/3]
		writers.Go(func() error {
			return write(ctx, Tokens{db, ring}, w*all/3, mine, sync.OnceFunc(begun.Done))
		})
	}
	begun.Wait()
	var counts [2]Rotation
	for i := range counts {
		replicas.Go(func() (err error) {
			counts[i], err = Rotate(t.Context(), db, ring)
			return err
		})
	}
	err := replicas.Wait()
	stop()
	require.NoError(t, writers.Wait())
	require.NoError(t, err)

	require.Zero(t, counts[0].Left+counts[1].Left, "who writes has the new ring")
	require.LessOrEqual(t, counts[0].Resealed+counts[1].Resealed, all, "no row is resealed twice")
	require.GreaterOrEqual(t, counts[0].Resealed+counts[1].Resealed, all/2, "the others are")
	for n, token := range last {
		if token == "" {
			token = "as it was"
		}
		requireToken(t, Tokens{db, ringOf(t, newer)}, n, token)
	}
}

// write stores tokens for every other user from first on until ctx ends, and records in
// last what it stored.
func write(ctx context.Context, tokens Tokens, first int, last []config.Secret, begun func()) error {
	defer begun()
	for i := 0; ctx.Err() == nil; i += 2 {
		n := i % len(last)
		token := config.Secret(fmt.Sprintf("put %d", i))
		if err := tokens.Put(context.WithoutCancel(ctx), user(first+n), "github", token); err != nil {
			return err
		}
		last[n] = token
		begun()
	}
	return nil
}

// requireLockWait waits until somebody in the database waits for a lock, or nobody does.
func requireLockWait(t *testing.T, db *pgxpool.Pool, want bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var waits bool
		err := db.QueryRow(t.Context(), `
			select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waits)
		return err == nil && waits == want
	}, time.Minute, 5*time.Millisecond)
}

func updatedAt(t *testing.T, db *pgxpool.Pool) (times []time.Time) {
	t.Helper()
	err := db.QueryRow(t.Context(), `select array_agg(updated_at order by user_id, provider) from provider_tokens`).Scan(&times)
	require.NoError(t, err)
	return times
}
