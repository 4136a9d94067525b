package runviews_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/projections/runviews"
	"svc/test/world"
	"svc/vault"
)

// The largest issue number is that of the log, whether or not the view has caught up.
func TestLargestIssue(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	runs := runviews.Runs{DB: w.DB}
	queue := func(in events.ID, r events.Repo, issue int) {
		_, err := w.Log.Append(t.Context(), &events.Commit{Workspace: in, At: world.Epoch, Writes: []events.Write{{
			Stream: world.NewID(), Events: []events.Event{events.RunQueued{Repo: r, IssueNumber: issue}},
		}}})
		require.NoError(t, err)
	}
	is := func(want int) {
		t.Helper()
		n, err := runs.LargestIssue(t.Context(), workspace, web.ID, w.Commands.IssueOf)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	is(0)
	queue(workspace, web, 12)
	queue(workspace, web, 7)
	queue(workspace, api, 30)
	queue(world.NewID(), web, 40)
	is(12)
	w.Follower = world.Follow(t, w.DB)
	w.CaughtUp(t)
	is(12)
	queue(workspace, web, 13)
	is(13)
}

// The name of a repository, from which jobs clone it, is that of the log, whatever a row says.
func TestRepoIsNamedByTheLog(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	renamed := events.Repo{ID: web.ID, Name: "acme/site"}
	workspace := world.NewID()
	queueAt(t, w, world.Epoch, workspace,
		runScript{repo: web, issue: 1}, runScript{repo: renamed, issue: 2}, runScript{repo: api, issue: 3})
	view := runviews.Runs{DB: w.DB}
	got, ok, err := view.Repo(t.Context(), workspace, web.ID, w.Commands.IssueOf)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, renamed, got)
	_, ok, err = view.Repo(t.Context(), workspace, world.NewID(), w.Commands.IssueOf)
	require.NoError(t, err)
	require.False(t, ok)

	_, err = w.DB.Exec(t.Context(), `update runs set repo_name = 'eve/trap' where workspace_id = $1`, workspace)
	require.NoError(t, err)
	got, _, err = view.Repo(t.Context(), workspace, web.ID, w.Commands.IssueOf)
	require.NoError(t, err)
	require.Equal(t, renamed, got)
	_, err = w.DB.Exec(t.Context(), `update runs set repo_id = $2 where workspace_id = $1 and issue_number = 3`, workspace, web.ID)
	require.NoError(t, err)
	_, _, err = view.Repo(t.Context(), workspace, web.ID, w.Commands.IssueOf)
	require.ErrorContains(t, err, "it is not that of run")
}

// checkLoads makes the log of w load no events that it did not append.
func checkLoads(t *testing.T, w *world.World) {
	t.Helper()
	ring, err := vault.NewRing([]config.Secret{"the-key-that-the-database-does-not-have"})
	require.NoError(t, err)
	w.Log.Authenticate(ring)
	signed := func(context.Context, []events.Record) error { return store.ErrForeign }
	w.Log.CheckLoads(ring, signed, slog.New(slog.DiscardHandler))
}

// A run that somebody wrote to the log without the vault's key neither names its repository nor numbers issues, whether
// or not the view has it. Other repositories are not affected.
func TestForgedRunNamesNoRepo(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	checkLoads(t, w)
	workspace := world.NewID()
	for i, r := range []events.Repo{web, api} {
		_, err := w.Log.Append(t.Context(), &events.Commit{Workspace: workspace, At: world.Epoch, Writes: []events.Write{{
			Stream: world.NewID(), Events: []events.Event{events.RunQueued{Repo: r, IssueNumber: i + 1}},
		}}})
		require.NoError(t, err)
	}
	f, view, issueOf := world.Follow(t, w.DB), runviews.Runs{DB: w.DB}, w.Commands.IssueOf
	world.Await(t, f, "runs", workspace, 2)
	n, err := view.LargestIssue(t.Context(), workspace, web.ID, issueOf)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	_, err = w.DB.Exec(t.Context(), `
		with h as (update logs set head = head + 1 where workspace_id = $1 returning head)
		insert into events select workspace_id, h.head, gen_random_uuid(), $2, 1, kind, schema, at, meta,
			jsonb_set(jsonb_set(data::jsonb, '{repo,name}', '"eve/trap"'), '{issueNumber}', '2000000000')::json, mac
		from h, events e where workspace_id = $1 and seq = 1`, workspace, world.NewID())
	require.NoError(t, err)
	refused := func() {
		t.Helper()
		_, err := view.LargestIssue(t.Context(), workspace, web.ID, issueOf)
		require.ErrorIs(t, err, fault.ErrUnavailable)
		require.ErrorIs(t, err, store.ErrForeign)
	}
	refused()
	f.Moved(workspace, 3)
	world.Await(t, f, "runs", workspace, 3)
	refused()
	_, _, err = view.Repo(t.Context(), workspace, web.ID, issueOf)
	require.ErrorIs(t, err, store.ErrForeign)
	got, _, err := view.Repo(t.Context(), workspace, api.ID, issueOf)
	require.NoError(t, err)
	require.Equal(t, api, got)
}

// The next issue is not numbered after a row that the log contradicts.
func TestChangedIssueNumberIsNotTheLargest(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	queueAt(t, w, world.Epoch, workspace, runScript{repo: web, issue: 1})
	_, err := w.DB.Exec(t.Context(), `update runs set issue_number = 2000000000 where workspace_id = $1`, workspace)
	require.NoError(t, err)
	_, err = runviews.Runs{DB: w.DB}.LargestIssue(t.Context(), workspace, web.ID, w.Commands.IssueOf)
	require.ErrorContains(t, err, "is not of issue 2000000000 in the log")
}
