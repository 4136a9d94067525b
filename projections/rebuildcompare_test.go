package projections_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/projections"
)

// rowsOf is what a rebuild says of rows.
func rowsOf(list []projections.Difference) (text string) {
	for _, d := range list {
		text += d.Workspace.String() + ": " + d.String() + "\n"
	}
	return text
}

// A rebuild destroys what somebody put into a view, and so names it before.
func TestARebuildNamesTheRowsThatItReplaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.play(t.Context(), 200))
	w.caughtUp(t)
	forge := func() {
		for _, sql := range []string{
			`update members set role = 'Viewer' where workspace_id = $1 and user_id = (select user_id from users where workspace_id = $1)`,
			`update service_tokens set fingerprint = sha256('mine') where fingerprint = (select fingerprint from service_tokens where workspace_id = $1 limit 1)`,
			`update runs set detail = (detail::text || ' ')::json where run_id = (select run_id from runs where workspace_id = $1 limit 1)`,
			`delete from global_keys where workspace_id = $1 and key like 'slug/%'`,
		} {
			tag, err := w.db.Exec(t.Context(), sql, p.workspace)
			require.NoError(t, err)
			require.EqualValues(t, 1, tag.RowsAffected(), sql)
		}
	}
	want := map[string]string{
		"members":        `: stored is role "Viewer", the log says role "Owner"`,
		"service_tokens": `service_tokens [0-9a-f]{16}…: is missing, the log says .*fingerprint "[0-9a-f]{16}…"`,
		"runs":           `: stored is the same in another spelling, the log says the same`,
		"global_keys":    `global_keys slug/\S+: is missing, the log says key "slug/`,
	}
	forge()
	for name, text := range want {
		done, err := projections.Rebuild(t.Context(), w.db, view(t, name), quiet)
		require.NoError(t, err)
		require.Equal(t, []events.ID{p.workspace}, done.Differing, name)
		require.Regexp(t, text, rowsOf(done.Rows))
		require.NotContains(t, rowsOf(done.Rows), `\x`, "a whole fingerprint")
	}
	forge()
	for name, text := range want {
		done, err := projections.RebuildLog(t.Context(), w.db, view(t, name), p.workspace, quiet)
		require.NoError(t, err)
		require.Regexp(t, text, rowsOf(done.Rows))
	}
	require.Empty(t, compared(t, w.db, p.workspace).Differences)

	_, err = w.db.Exec(t.Context(), `insert into members select workspace_id, gen_random_uuid(), gen_random_uuid(), 'eve@x', 'Owner', null, now(), '', 'eve@x' from logs, generate_series(1, 500) where workspace_id = $1`, p.workspace)
	require.NoError(t, err)
	done, err := projections.Rebuild(t.Context(), w.db, view(t, "members"), quiet)
	require.NoError(t, err)
	require.Len(t, done.Rows, 100)
}

// Rows without a log are named too.
func TestARebuildNamesRowsOfNoLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.settle(t.Context(), 1)
	require.NoError(t, err)
	nowhere := newID()
	_, err = w.db.Exec(t.Context(), `insert into members values ($1, $1, $1, 'eve@x', 'Owner', null, now(), '', 'eve@x')`, nowhere)
	require.NoError(t, err)
	done, err := projections.Rebuild(t.Context(), w.db, view(t, "members"), quiet)
	require.NoError(t, err)
	require.Equal(t, []events.ID{nowhere}, done.Differing)
	require.Contains(t, rowsOf(done.Rows), "is not in the log, stored is")
}

// A row that was moved to another workspace comes back.
func TestARowOfAnotherWorkspaceGivesWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 1)
	require.NoError(t, err)
	other, err := w.settle(t.Context(), 2)
	require.NoError(t, err)
	_, err = w.db.Exec(t.Context(), `update global_keys set workspace_id = $2 where workspace_id = $1`, p.workspace, other.workspace)
	require.NoError(t, err)
	_, err = projections.RebuildLog(t.Context(), w.db, view(t, "global_keys"), p.workspace, quiet)
	require.NoError(t, err)
	require.Empty(t, compared(t, w.db, p.workspace).Differences)
	require.Empty(t, compared(t, w.db, other.workspace).Differences)
}

// Keys move between workspaces, also long ones.
func TestKeysThatMovedAreRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.play(t.Context(), 50))
	slug := "w" + p.workspace.String()[24:]
	_, err = w.commands.RenameWorkspace(t.Context(), commands.RenameWorkspace{Meta: meta(p.workspace, p.owner), Slug: ptr("renamed")})
	require.NoError(t, err)
	other := newID()
	_, err = w.commands.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta: meta(other, p.owner), Member: newID(), Email: "ann@x", Name: "Other", Slug: slug,
	})
	require.NoError(t, err)
	before := dump(t, w.db, "global_keys")
	require.Contains(t, strings.Join(before, " "), "slug/"+slug+","+other.String())
	for _, name := range []string{"global_keys", "unique_keys"} {
		done, err := projections.RebuildIn(t.Context(), w.db, view(t, name), 1, 3, quiet)
		require.NoError(t, err)
		require.Empty(t, done.Differing)
	}
	require.Equal(t, before, dump(t, w.db, "global_keys"))
	_, err = w.commands.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta: meta(newID(), p.owner), Member: newID(), Email: "ann@x", Name: "Third", Slug: slug,
	})
	require.Error(t, err, "the key is held in the new table too")
}
