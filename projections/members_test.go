package projections_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/projections"
	"svc/test/world"
)

// team creates a workspace with members of the given names, and returns their ids in the order in
// which they joined.
func team(t *testing.T, w *world.World, names ...string) (workspace events.ID, list []events.ID) {
	t.Helper()
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	for i, name := range names {
		add := commands.AddMember{
			Meta: world.Meta(p.Workspace, world.System), Member: world.NewID(), User: world.NewID(), Email: fmt.Sprintf("m%d@team.example", i),
			Name: name, Role: events.Viewer,
		}
		if i%3 == 2 {
			add.Role = events.Legacy
		}
		_, err := w.DB.Exec(t.Context(), `
			insert into users (user_id, workspace_id, name, email, emails, avatar_url, registered_at) values ($1, $2, $3, $4, '{}', '', now())`,
			add.User, world.NewID(), name, add.Email)
		require.NoError(t, err)
		_, err = w.Commands.AddMember(t.Context(), add)
		require.NoError(t, err)
		list = append(list, add.Member)
	}
	return p.Workspace, list
}

// namesOf returns the names on a page of members.
func namesOf(t *testing.T, w *world.World, q projections.MemberQuery) (names []string, total int, next *projections.MemberCursor) {
	t.Helper()
	list, total, next, err := projections.Members{DB: w.DB}.Page(t.Context(), q)
	require.NoError(t, err)
	for _, m := range list {
		if m.Role != events.Owner { // the creator of the workspace
			names = append(names, m.Name)
		}
	}
	return names, total, next
}

// A search matches prefixes of a name, of a word in it, of an address or of its domain.
func TestMembersAreSearchedByWords(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, _ := team(t, w, "Zoë Brandt", "Zoe Adams", "Émile O'Hara-Øst", "王小明", "İpek Żak", "Straße 9", "",
		"J. R. R. T. Olkien von Hohenstein zu Berg", "Łukasz ПЕТРОВ")
	for q, want := range map[string][]string{
		"zoe": {"Zoe Adams", "Zoë Brandt"}, "ZOË B": {"Zoë Brandt"}, "brandt": {"Zoë Brandt"}, "randt": nil, "emile": {"Émile O'Hara-Øst"},
		"hara": {"Émile O'Hara-Øst"}, "o'hara": {"Émile O'Hara-Øst"}, "  ømile ": nil, "øst": {"Émile O'Hara-Øst"}, "王": {"王小明"},
		"lukasz": {"Łukasz ПЕТРОВ"}, "ŁUK": {"Łukasz ПЕТРОВ"}, "петров": {"Łukasz ПЕТРОВ"},
		"strasse": {"Straße 9"}, "STRAß": {"Straße 9"},
		"ipek zak": {"İpek Żak"}, "zak": {"İpek Żak"},
		"9": {"Straße 9"}, "m3@": {"王小明"}, "m3@team.example": {"王小明"}, "m6": {""},
		"team.ex": {"Émile O'Hara-Øst", "İpek Żak", "J. R. R. T. Olkien von Hohenstein zu Berg", "", "Łukasz ПЕТРОВ", "Straße 9",
			"Zoe Adams", "Zoë Brandt",
			"王小明"},
		"%": nil, "z_e": nil, " ": nil, "\t\u0301": nil, "olkien  von": {"J. R. R. T. Olkien von Hohenstein zu Berg"},
	} {
		names, total, _ := namesOf(t, w, projections.MemberQuery{Workspace: workspace, Q: q, Limit: 25})
		require.ElementsMatch(t, want, names, q)
		require.Equal(t, len(want), total, q)
	}
	names, total, _ := namesOf(t, w, projections.MemberQuery{Workspace: workspace, Q: "team", Role: events.Legacy, Limit: 25})
	require.Equal(t, []string{"Émile O'Hara-Øst", "Łukasz ПЕТРОВ", "Straße 9"}, names)
	require.Equal(t, 3, total)
}

// Pages by cursor equal pages by offset, even if a member of the previous page has changed.
func TestMembersArePagedByCursor(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	var given []string
	for i := range 60 {
		given = append(given, fmt.Sprintf("Person %02d", (i*7)%60/2)) // each name twice
	}
	workspace, _ := team(t, w, given...)
	for _, q := range []projections.MemberQuery{{}, {Role: events.Viewer}, {Q: "person 1"},
		{Q: "person", Role: events.Viewer}} {
		q.Workspace, q.Limit = workspace, 100
		all, total, next := namesOf(t, w, q)
		require.Nil(t, next)
		require.IsIncreasing(t, append(unique(all), "~"))
		q.Limit = 7
		var paged []string
		for page := 0; ; page++ {
			names, of, next := namesOf(t, w, q)
			require.Equal(t, total, of)
			paged = append(paged, names...)
			byOffset := q
			byOffset.After, byOffset.Offset = nil, 7*page
			same, _, _ := namesOf(t, w, byOffset)
			require.Equal(t, names, same)
			if next == nil {
				break
			}
			cursor, ok := projections.ParseMemberCursor(next.String())
			require.True(t, ok)
			require.Equal(t, *next, cursor)
			q.After = &cursor
		}
		require.Equal(t, all, paged)
	}
	for _, text := range []string{"", "x", "!", "AAAA", "AAAAAAAAAAAAAAAAAAAAAP__", "AAAAAAAAAAAAAAAAAAAAAAA"} {
		_, ok := projections.ParseMemberCursor(text)
		require.False(t, ok, text)
	}
}

func unique(list []string) (out []string) {
	for i, s := range list {
		if i == 0 || list[i-1] != s {
			out = append(out, s)
		}
	}
	return out
}

// The counts by role equal a count over all members.
func TestMembersAreCountedByRole(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, list := team(t, w, "A", "B", "C", "D")
	owner := projections.Members{DB: w.DB}
	all, _, _, err := owner.Page(t.Context(), projections.MemberQuery{Workspace: workspace, Role: events.Owner, Limit: 5})
	require.NoError(t, err)
	o := world.Meta(workspace, events.Actor{Type: events.ByUser, ID: all[0].User, Name: all[0].Email})
	for _, step := range []func() (commands.Result, error){
		func() (commands.Result, error) {
			return w.Commands.UpdateMember(t.Context(), commands.UpdateMember{Meta: o, Member: list[0], Role: world.Ptr(events.Maintainer)})
		},
		func() (commands.Result, error) {
			return w.Commands.UpdateMember(t.Context(), commands.UpdateMember{Meta: o, Member: list[2], Role: world.Ptr(events.Viewer)})
		},
		func() (commands.Result, error) {
			return w.Commands.RemoveMember(t.Context(), commands.RemoveMember{Meta: o, Member: list[1]})
		},
	} {
		_, err := step()
		require.NoError(t, err)
		for _, role := range append(events.Roles(), "") {
			list, total, _, err := owner.Page(t.Context(), projections.MemberQuery{Workspace: workspace, Role: role, Limit: 25})
			require.NoError(t, err)
			require.Len(t, list, total, role)
		}
	}
	require.Equal(t, []string{"Maintainer 1", "Owner 1", "Viewer 2"}, roleCounts(t, w, workspace))
}

func roleCounts(t *testing.T, w *world.World, workspace events.ID) (list []string) {
	t.Helper()
	rows, err := w.DB.Query(t.Context(), `select role || ' ' || members from member_counts where workspace_id = $1 order by 1`, workspace)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		list = append(list, line)
	}
	require.NoError(t, rows.Err())
	return list
}
