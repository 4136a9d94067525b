//go:build !race

package rebuild_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/projections/rebuild"
	"svc/test/world"
)

// The rows of live views equal those of a rebuild, byte for byte.
func TestRebuiltViewEqualsLiveView(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			var workspaces []events.ID
			for i := range uint64(3) {
				p, err := w.NewPlayer(t.Context(), 10*seed+i)
				require.NoError(t, err)
				workspaces = append(workspaces, p.Workspace)
				require.NoError(t, p.Play(t.Context(), 250))
				require.NoError(t, p.PlayEndings(t.Context()))
			}
			w.CaughtUp(t)
			live := world.Dumps(t, w.DB)
			requireCoverage(t, w, live)
			for _, v := range projections.All() {
				for range 2 { // the second time from the rebuilt table
					world.Rebuild(t, w.DB, v)
					require.Equal(t, live[v.Name()], world.Dump(t, w.DB, v.Name()), v.Name())
				}
				_, err := rebuild.RebuildIn(t.Context(), w.DB, v, 2, 60, world.IgnoreProgress) // a log takes several transactions
				require.NoError(t, err)
				require.Equal(t, live[v.Name()], world.Dump(t, w.DB, v.Name()), v.Name())
				for _, workspace := range workspaces {
					_, err := rebuild.RebuildLogIn(t.Context(), w.DB, v, workspace, 60)
					require.NoError(t, err)
				}
				require.Equal(t, live[v.Name()], world.Dump(t, w.DB, v.Name()), v.Name())
			}
		})
	}
}

// requireCoverage requires that the generated events covered all cases of interest.
func requireCoverage(t *testing.T, w *world.World, views map[string][]string) {
	t.Helper()
	for view, touched := range world.Touched(t, w.DB) {
		require.Equal(t, touched, len(views[view]) > 0, "%s: has rows if and only if events say so", view)
	}
	rows, _ := w.DB.Query(t.Context(), `select distinct split_part(kind, '.', 1) from events`)
	nouns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Subset(t, nouns, []string{"decision", "invitation", "job", "member", "run", "service_account", "user", "workspace"})
	all := strings.Join(append(views["runs"], views["service_tokens"]...), "\n")
	for _, word := range []string{",merged,", ",cancelled,", ",rejected,", ",failed,", ",needs_input,", `""attempt"":2`, ",current)",
		",rotated)", ",revoked)"} {
		require.Contains(t, all, word)
	}
	asked := strings.Join(views["decisions"], "\n")
	for _, status := range []string{"open", "answered", "voided"} {
		require.Contains(t, asked, ","+status+",")
	}
	letters := strings.Join(views["invitations"], "\n")
	for _, status := range []string{"pending", "accepted", "rejected", "revoked"} {
		require.Contains(t, letters, ","+status+",")
	}
	for view, word := range map[string]string{
		"users":    "moved-", // changed addresses
		"accounts": "gitea/", // a second account
	} {
		require.True(t, strings.Contains(strings.Join(views[view], "\n"), word), "no %s in %s", word, view)
	}
}
