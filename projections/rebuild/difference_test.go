//go:build !race

package rebuild_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/projections/fold"
	"svc/projections/rebuild"
	"svc/test/world"
)

// formatRows formats the rows that a rebuild reports.
func formatRows(list []fold.Difference) (text string) {
	for _, d := range list {
		text += d.Workspace.String() + ": " + d.String() + "\n"
	}
	return text
}

// A rebuild reports the differing rows before it replaces them.
func TestRebuildReportsTheRowsItReplaces(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 200))
	w.CaughtUp(t)
	forge := func() {
		for _, sql := range []string{
			`update members set role = 'Viewer' where workspace_id = $1 and user_id = (select user_id from users where workspace_id = $1)`,
			`update service_tokens set fingerprint = sha256('mine') where fingerprint = (select fingerprint from service_tokens
				where workspace_id = $1 limit 1)`,
			`update runs set detail = (detail::text || ' ')::json where run_id = (select run_id from runs where workspace_id = $1 limit 1)`,
			`delete from global_keys where workspace_id = $1 and key like 'slug/%'`,
		} {
			tag, err := w.DB.Exec(t.Context(), sql, p.Workspace)
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
		done, err := world.RebuildView(t.Context(), w.DB, world.View(t, name), world.IgnoreProgress)
		require.NoError(t, err)
		require.Equal(t, []events.ID{p.Workspace}, done.Differing, name)
		require.Regexp(t, text, formatRows(done.Rows))
		require.NotContains(t, formatRows(done.Rows), `\x`, "a whole fingerprint")
	}
	forge()
	for name, text := range want {
		done, err := rebuild.Log(t.Context(), w.DB, world.View(t, name), p.Workspace, rebuild.Options{})
		require.NoError(t, err)
		require.Regexp(t, text, formatRows(done.Rows))
	}
	require.Empty(t, world.Compare(t, w.DB, p.Workspace).Differences)

	_, err = w.DB.Exec(t.Context(),
		`insert into members select workspace_id, gen_random_uuid(), gen_random_uuid(), 'eve@x', 'Owner', null, now(), '', 'eve@x'
			from logs, generate_series(1, 500) where workspace_id = $1`, p.Workspace)
	require.NoError(t, err)
	done, err := world.RebuildView(t.Context(), w.DB, world.View(t, "members"), world.IgnoreProgress)
	require.NoError(t, err)
	require.Len(t, done.Rows, 100)
}

// Rows without a log are reported too.
func TestRebuildReportsRowsWithoutLog(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	_, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	nowhere := world.NewID()
	_, err = w.DB.Exec(t.Context(), `insert into members values ($1, $1, $1, 'eve@x', 'Owner', null, now(), '', 'eve@x')`, nowhere)
	require.NoError(t, err)
	done, err := world.RebuildView(t.Context(), w.DB, world.View(t, "members"), world.IgnoreProgress)
	require.NoError(t, err)
	require.Equal(t, []events.ID{nowhere}, done.Differing)
	require.Contains(t, formatRows(done.Rows), "is not in the log, stored is")
}

// A row that was moved to another workspace is restored.
func TestRebuildRestoresRowsMovedToAnotherWorkspace(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	other, err := w.NewPlayer(t.Context(), 2)
	require.NoError(t, err)
	_, err = w.DB.Exec(t.Context(), `update global_keys set workspace_id = $2 where workspace_id = $1`, p.Workspace, other.Workspace)
	require.NoError(t, err)
	_, err = rebuild.Log(t.Context(), w.DB, world.View(t, "global_keys"), p.Workspace, rebuild.Options{})
	require.NoError(t, err)
	require.Empty(t, world.Compare(t, w.DB, p.Workspace).Differences)
	require.Empty(t, world.Compare(t, w.DB, other.Workspace).Differences)
}

// Unique keys that moved between workspaces are rebuilt, also if a log takes several transactions.
func TestKeysThatMovedAreRebuilt(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 50))
	slug := "w" + p.Workspace.String()[24:]
	_, err = w.Commands.RenameWorkspace(t.Context(),
		commands.RenameWorkspace{Meta: world.Meta(p.Workspace, p.Owner), Slug: world.Ptr("renamed")})
	require.NoError(t, err)
	other := world.NewID()
	_, err = w.Commands.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta: world.Meta(other, p.Owner), Member: world.NewID(), Email: "ann@x", Name: "Other", Slug: slug,
	})
	require.NoError(t, err)
	before := world.Dump(t, w.DB, "global_keys")
	require.Contains(t, strings.Join(before, " "), "slug/"+slug+","+other.String())
	for _, name := range []string{"global_keys", "unique_keys"} {
		done, err := rebuild.RebuildIn(t.Context(), w.DB, world.View(t, name), 1, 3, world.IgnoreProgress)
		require.NoError(t, err)
		require.Empty(t, done.Differing)
	}
	require.Equal(t, before, world.Dump(t, w.DB, "global_keys"))
	_, err = w.Commands.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta: world.Meta(world.NewID(), p.Owner), Member: world.NewID(), Email: "ann@x", Name: "Third", Slug: slug,
	})
	require.Error(t, err, "the key is held in the new table too")
}

// An event that touches a row of another workspace leaves it alone, also if a log takes several transactions.
func TestRowsOfOtherWorkspacesAreNotRebuiltTwice(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	var players []*world.Player
	for i, account := range []string{"1", "2"} {
		p, err := w.NewPlayer(t.Context(), uint64(i))
		require.NoError(t, err)
		w.Record(t, p.Owner, p.Workspace, p.Owner.ID, events.UserAccountLinked{User: p.Owner.ID, Provider: "gitea", Account: account})
		players = append(players, p)
	}
	for i, account := range []string{"2", "1"} { // at a host that may not be the other person's
		p := players[i]
		w.Record(t, p.Owner, p.Workspace, p.Owner.ID,
			events.UserAccountLinked{User: p.Owner.ID, Provider: "gitea", Host: "https://new.example", Account: account})
	}
	before := world.Dump(t, w.DB, "accounts")
	done, err := rebuild.RebuildIn(t.Context(), w.DB, world.View(t, "accounts"), 1, 1, world.IgnoreProgress)
	require.NoError(t, err)
	require.Empty(t, done.Differing)
	require.Equal(t, before, world.Dump(t, w.DB, "accounts"))
}
