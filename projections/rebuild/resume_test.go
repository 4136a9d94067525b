//go:build !race

package rebuild_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/events"
	"svc/projections"
	"svc/projections/fold"
	"svc/projections/rebuild"
	"svc/test/world"
)

// A rebuild does not fold again what a killed one has folded.
func TestRebuildResumesAfterKill(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	for range 8 {
		w.QueueRun(t, world.NewID())
	}
	w.CaughtUp(t)
	for _, v := range projections.All() {
		want := world.Dump(t, w.DB, v.Name())
		killRebuild(t, w, v)
		r, err := rebuild.ResumeRebuild(t.Context(), w.DB, v, world.IgnoreProgress)
		require.NoError(t, err, v.Name())
		keys := v.Name() == "global_keys" || v.Name() == "unique_keys" // their rebuild cannot be resumed
		require.Equal(t, !keys, r.Resumed > 0, v.Name())
		require.Positive(t, r.Events, v.Name())
		require.Equal(t, want, world.Dump(t, w.DB, v.Name()), v.Name())
		left, err := w.DB.Query(t.Context(), `select view from rebuilds`)
		require.NoError(t, err)
		names, err := pgx.CollectRows(left, pgx.RowTo[string])
		require.NoError(t, err)
		require.Empty(t, names)
	}
}

// killRebuild starts a rebuild whose connections break when half of the logs are folded, one in a transaction.
func killRebuild(t *testing.T, w *world.World, v fold.View) {
	t.Helper()
	var killed atomic.Bool // keeps the pool from reconnecting
	victim := world.Connect(t, w.URL, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = "victim"
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			if killed.Load() {
				return errors.New("the process is gone")
			}
			return nil
		}
	})
	folded := 0
	_, err := rebuild.RebuildIn(t.Context(), victim, v, 1, 100, func(done, total int64) {
		if folded++; folded == 4 {
			killed.Store(true)
			_, err := w.DB.Exec(t.Context(), `
				select pg_terminate_backend(pid, 60000) from pg_stat_activity
				where application_name = 'victim' and datname = current_database()`)
			require.NoError(t, err)
		}
	})
	require.Error(t, err)
	victim.Close()
	require.Eventually(t, func() bool { // until then the server holds its advisory lock
		var there int
		err := w.DB.QueryRow(t.Context(), `
			select count(*) from pg_stat_activity where application_name = 'victim' and datname = current_database()`).Scan(&there)
		return err == nil && there == 0
	}, world.Limit, time.Millisecond)
}

// A rebuild begins anew if another version, which may fold differently, has made the table.
func TestRebuildDoesNotResumeThatOfAnotherVersion(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	for range 8 {
		w.QueueRun(t, world.NewID())
	}
	w.CaughtUp(t)
	killRebuild(t, w, world.View(t, "runs"))
	tag, err := w.DB.Exec(t.Context(), `update rebuilds set version = '0.1.0'`)
	require.NoError(t, err)
	require.Positive(t, tag.RowsAffected())
	r, err := rebuild.ResumeRebuild(t.Context(), w.DB, world.View(t, "runs"), world.IgnoreProgress)
	require.NoError(t, err)
	require.Zero(t, r.Resumed)
	require.Equal(t, int64(8), r.Events)
}

// Anyone who can write to the database can make up what a killed rebuild left. A rebuild believes nothing of it, so it
// restores rows that were changed. One that resumes takes the rows as they are, and only a comparison finds them.
func TestForgedRebuild(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 20))
	v, want := world.View(t, "members"), world.Dump(t, w.DB, "members")
	forge := func() {
		for _, sql := range []string{
			`update members set email = 'eve@x'`,
			`create table members__next (like members)`,
			`insert into members__next select * from members`,
			`insert into rebuilds (workspace_id, view, seq, form, version)
				select workspace_id, 'members', head, ` + strconv.Itoa(v.Form()) + `, '` + config.Version + `' from logs`,
		} {
			tag, err := w.DB.Exec(t.Context(), sql)
			require.NoError(t, err)
			require.True(t, tag.RowsAffected() > 0 || strings.HasPrefix(sql, "create"), sql)
		}
	}
	forge()
	r, err := world.RebuildView(t.Context(), w.DB, v, world.IgnoreProgress)
	require.NoError(t, err)
	require.Zero(t, r.Resumed)
	require.Contains(t, r.Differing, p.Workspace)
	require.Equal(t, want, world.Dump(t, w.DB, "members"))

	forge()
	r, err = rebuild.ResumeRebuild(t.Context(), w.DB, v, world.IgnoreProgress)
	require.NoError(t, err)
	require.Positive(t, r.Resumed)
	require.Empty(t, r.Differing)
	requireDiffering(t, w, p.Workspace, "members")
}

// Rows that are changed in the table that a rebuild makes, while it does, become the view. A comparison finds them.
func TestForgedRowsDuringRebuild(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 20))
	_, err = world.RebuildView(t.Context(), w.DB, world.View(t, "members"), func(int64, int64) {
		_, err := w.DB.Exec(t.Context(), `update members__next set email = 'eve@x'`)
		require.NoError(t, err)
	})
	require.NoError(t, err)
	requireDiffering(t, w, p.Workspace, "members")
}

func requireDiffering(t *testing.T, w *world.World, workspace events.ID, view string) {
	t.Helper()
	found := world.Compare(t, w.DB, workspace).Differences
	require.NotEmpty(t, found)
	require.Equal(t, view, found[0].View)
}
