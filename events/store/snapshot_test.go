package store_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
	"svc/vault"
)

// A keeper is a store that keeps snapshots authenticated by a set of keys, with its log
// output.
type keeper struct {
	*store.Store
	said *bytes.Buffer
}

func keeperOf(t *testing.T, db *pgxpool.Pool, keys ...string) keeper {
	t.Helper()
	k := keeper{open(t, db), &bytes.Buffer{}}
	k.EnableSnapshots(ringOf(t, keys...), slog.New(slog.NewTextHandler(k.said, nil)))
	return k
}

func ringOf(t *testing.T, keys ...string) vault.Ring {
	t.Helper()
	var list []config.Secret
	for _, key := range keys {
		list = append(list, config.Secret(strings.Repeat(key, 32)))
	}
	ring, err := vault.NewRing(list)
	require.NoError(t, err)
	return ring
}

// finds requires that a snapshot of the stream is found, or that none is.
func (k keeper) finds(t *testing.T, workspace, stream events.ID, want *events.Snapshot) {
	t.Helper()
	got, err := k.Snapshot(t.Context(), workspace, stream, 1)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// Whoever has access to the database but not to the key can neither make a valid snapshot
// nor prevent one from being stored.
func TestForgedSnapshotIsDropped(t *testing.T) {
	t.Parallel()
	shot := events.Snapshot{Form: 1, Version: 500, Seq: 700, State: []byte(`{"members": 1}`)}
	for name, sql := range map[string]string{
		"its state":               `update snapshots set state = '{"members": 2}' where workspace_id = $1`,
		"a space in its state":    `update snapshots set state = '{"members":  1}' where workspace_id = $1`,
		"its version":             `update snapshots set version = 501 where workspace_id = $1`,
		"its position":            `update snapshots set seq = 701 where workspace_id = $1`,
		"its form":                `update snapshots set form = 2147483647, version = 2147483647 where workspace_id = $1`,
		"its code":                `update snapshots set mac = '\x00' where workspace_id = $1`,
		"moved to another stream": `update snapshots set stream = '00000000-0000-0000-0000-000000000009' where workspace_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, workspace, stream := pgtest.New(t), newID(), newID()
			k := keeperOf(t, db, "a")
			require.NoError(t, k.SaveSnapshot(t.Context(), workspace, stream, shot))
			k.finds(t, workspace, stream, &shot)
			require.Empty(t, k.said.String())
			_, err := db.Exec(t.Context(), sql, workspace)
			require.NoError(t, err)
			if name == "moved to another stream" {
				stream = events.ID{15: 9}
			}
			k.finds(t, workspace, stream, nil)
			require.Contains(t, k.said.String(), "level=ERROR")
			require.Contains(t, k.said.String(), stream.String())
			later := shot
			later.Version = 600
			require.NoError(t, k.SaveSnapshot(t.Context(), workspace, stream, later))
			k.finds(t, workspace, stream, &later)
		})
	}
}

// A snapshot of another form belongs to another build, and is not deleted.
func TestSnapshotOfAnotherBuildIsKept(t *testing.T) {
	t.Parallel()
	db, workspace := pgtest.New(t), newID()
	k := keeperOf(t, db, "a")
	newer := events.Snapshot{Form: 2, Version: 500, Seq: 700, State: []byte(`{}`)}
	require.NoError(t, k.SaveSnapshot(t.Context(), workspace, workspace, newer))
	k.finds(t, workspace, workspace, nil)
	require.Empty(t, k.said.String())
	got, err := k.Snapshot(t.Context(), workspace, workspace, 2)
	require.NoError(t, err)
	require.Equal(t, &newer, got)
}

func TestSnapshotsOutliveARotationOfTheKey(t *testing.T) {
	t.Parallel()
	db, workspace, other := pgtest.New(t), newID(), newID()
	shot := events.Snapshot{Form: 1, Version: 500, Seq: 700, State: []byte(`{}`)}
	require.NoError(t, keeperOf(t, db, "a").SaveSnapshot(t.Context(), workspace, workspace, shot))
	require.NoError(t, keeperOf(t, db, "c").SaveSnapshot(t.Context(), other, other, shot))
	both := keeperOf(t, db, "b", "a")
	both.finds(t, workspace, workspace, &shot)
	done, err := store.RotateSnapshots(t.Context(), db, ringOf(t, "b", "a"))
	require.NoError(t, err)
	require.Equal(t, 1, done, "what nobody can authenticate is left alone")
	keeperOf(t, db, "b").finds(t, workspace, workspace, &shot)
	done, err = store.RotateSnapshots(t.Context(), db, ringOf(t, "b", "a"))
	require.NoError(t, err)
	require.Zero(t, done)

	lost := keeperOf(t, db, "b")
	lost.finds(t, other, other, nil)
	require.Contains(t, lost.said.String(), "SVC_VAULT_MASTER_KEY does not list")
}

func TestSnapshotsAreForgotten(t *testing.T) {
	t.Parallel()
	db, one, two := pgtest.New(t), newID(), newID()
	k := keeperOf(t, db, "a")
	shot := events.Snapshot{Form: 1, Version: 500, Seq: 700, State: []byte(`{}`)}
	for _, workspace := range []events.ID{one, two} {
		require.NoError(t, k.SaveSnapshot(t.Context(), workspace, workspace, shot))
	}
	require.NoError(t, store.DropSnapshots(t.Context(), db, one))
	k.finds(t, one, one, nil)
	k.finds(t, two, two, &shot)
	require.NoError(t, store.DropSnapshots(t.Context(), db, events.ID{}))
	k.finds(t, two, two, nil)
}

// Without a key the store neither saves snapshots nor uses stored ones.
func TestStoreWithoutKeyStoresNoSnapshots(t *testing.T) {
	t.Parallel()
	db, workspace := pgtest.New(t), newID()
	shot := events.Snapshot{Form: 1, Version: 500, Seq: 700, State: []byte(`{}`)}
	require.NoError(t, keeperOf(t, db, "a").SaveSnapshot(t.Context(), workspace, workspace, shot))
	plain := open(t, db)
	got, err := plain.Snapshot(t.Context(), workspace, workspace, 1)
	require.NoError(t, err)
	require.Nil(t, got)
	require.NoError(t, plain.SaveSnapshot(t.Context(), newID(), newID(), shot))
	var n int
	require.NoError(t, db.QueryRow(t.Context(), `select count(*) from snapshots`).Scan(&n))
	require.Equal(t, 1, n)
}
