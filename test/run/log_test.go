//go:build linux

package run

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/projections"
	"svc/proof"
)

// An entry is an event of the workspace in which the writers write.
type entry struct {
	Seq                   int64
	Kind, Stream, Request string
	Data                  []byte
}

// entries returns the whole log of a workspace.
func entries(t *testing.T, s *stage) []entry {
	t.Helper()
	var list []entry
	for _, row := range rows(t, s.connect(), `
		select seq, kind, stream::text, coalesce(meta->>'requestId', ''), data::text from events
		where workspace_id = (select workspace_id from workspaces where slug = 'acme') order by seq`) {
		list = append(list, entry{row[0].(int64), row[1].(string), row[2].(string), row[3].(string), []byte(row[4].(string))})
	}
	return list
}

// requireEachDeedOnce proves that what was acknowledged is in the log, once and
// where the answer said; that what was refused is not; and that nothing is in
// it twice.
func requireEachDeedOnce(t *testing.T, s *stage, deeds []*deed) {
	t.Helper()
	list := entries(t, s)
	by := map[string][]entry{}
	for _, e := range list {
		by[e.Request] = append(by[e.Request], e)
	}
	counts, roles := map[outcome]int{}, rolesOf(t, list)
	for _, d := range deeds {
		counts[d.outcome]++
		var found []entry
		for _, id := range d.requests {
			found = append(found, by[id]...)
			delete(by, id)
		}
		requireDeed(t, d, found, roles)
	}
	delete(by, "") // the demonstration's
	maps.DeleteFunc(by, func(_ string, list []entry) bool {
		return !slices.ContainsFunc(list, func(e entry) bool { return !ofTheRunner(e) })
	})
	require.Empty(t, by, "events of nobody's request")
	requireJobsOnce(t, list)
	t.Logf("%d acknowledged, %d refused, %d unknown", counts[acknowledged], counts[refused], counts[unknown])
}

// ofTheRunner reports whether an event is of how svc made this machine a runner, or of the
// demonstration's jobs that it runs.
func ofTheRunner(e entry) bool {
	noun, _, _ := strings.Cut(e.Kind, ".")
	return slices.Contains([]string{"authority", "enrollment", "runner", "job"}, noun)
}

// requireJobsOnce proves that no job, which only the demonstration submits here, was submitted or has
// finished twice, and that none was leased, accepted or started twice in an epoch of it.
func requireJobsOnce(t *testing.T, list []entry) {
	t.Helper()
	kinds := []string{"job.submitted", "job.leased", "job.accepted", "job.started", "job.finished", "job.log_sealed"}
	seen := map[string]bool{}
	for _, e := range list {
		if !slices.Contains(kinds, e.Kind) {
			continue
		}
		var data struct{ Epoch int }
		require.NoError(t, json.Unmarshal(e.Data, &data))
		if e.Kind == "job.finished" {
			data.Epoch = 0
		}
		key := fmt.Sprint(e.Stream, e.Kind, data.Epoch)
		require.False(t, seen[key], "twice: %+v", e)
		seen[key] = true
	}
	require.NotEmpty(t, seen)
}

func requireDeed(t *testing.T, d *deed, found []entry, roles roles) {
	t.Helper()
	what := fmt.Sprintf("%+v: %+v", *d, found)
	switch {
	case d.outcome == refused:
		require.Empty(t, found, what)
		return
	case d.outcome == acknowledged && d.role != "" && len(found) == 0:
		require.Equal(t, d.role, roles.at(d.member, d.position), "nothing was done, for it was so already: %s", what)
		return
	case d.outcome == acknowledged:
		require.Len(t, found, 1, what)
	default:
		require.LessOrEqual(t, len(found), 1, what)
	}
	for _, e := range found {
		require.Equal(t, d.kind, e.Kind, what)
		if d.position > 0 {
			require.Equal(t, d.position, e.Seq, what)
		}
		if d.account != "" {
			require.Equal(t, d.account, e.Stream, what)
		}
		if d.token != "" {
			require.Contains(t, string(e.Data), `"tail":"`+d.token[len(d.token)-4:]+`"`, what)
		}
	}
}

// A roles is what every member was at which position, in order.
type roles map[string][]struct {
	since int64
	role  string
}

func rolesOf(t *testing.T, list []entry) roles {
	t.Helper()
	all := roles{}
	for _, e := range list {
		var data struct{ MemberID, Role, To string }
		if e.Kind != "member.joined" && e.Kind != "member.role_changed" {
			continue
		}
		require.NoError(t, json.Unmarshal(e.Data, &data))
		all[data.MemberID] = append(all[data.MemberID], struct {
			since int64
			role  string
		}{e.Seq, data.Role + data.To}) // one of them is empty
	}
	return all
}

func (r roles) at(member string, position int64) (role string) {
	for _, was := range r[member] {
		if was.since <= position {
			role = was.role
		}
	}
	return role
}

// requireTokensOf proves that the last token that was shown of an account
// opens the door, at both replicas, and the one before it does not.
func requireTokensOf(t *testing.T, s *stage, deeds []*deed) {
	t.Helper()
	shown := map[string][]*deed{} // by account
	for _, d := range deeds {
		if d.account != "" && d.role == "" {
			shown[d.account] = append(shown[d.account], d)
		}
	}
	tried := 0
	for _, list := range shown {
		last := list[len(list)-1]
		if last.token == "" {
			continue // whether it was rotated once more is not known, or its answer was lost
		}
		if tried++; tried > 50 {
			return
		}
		requireTokenReads(t, s.rest[tried%2].url(), last.token)
		for _, before := range list[:len(list)-1] {
			if before.token != "" {
				byToken(before.token).must(t, http.StatusUnauthorized, "GET", s.rest[(tried+1)%2].url()+"/api/v1/runs?status=active", nil)
				break
			}
		}
	}
	require.Positive(t, tried)
}

// requireWholeLogs proves that no log has a gap, and no stream.
func requireWholeLogs(t *testing.T, s *stage) {
	t.Helper()
	c := s.connect()
	require.Empty(t, rows(t, c, `
		select l.workspace_id, l.head, min(e.seq), max(e.seq), count(e.seq) from logs l left join events e using (workspace_id)
		group by l.workspace_id having min(e.seq) <> 1 or max(e.seq) <> l.head or count(e.seq) <> l.head`), "logs with a gap")
	require.Empty(t, rows(t, c, `
		select workspace_id, stream from events group by 1, 2 having min(version) <> 1 or max(version) <> count(*)`), "streams with a gap")
	require.Empty(t, rows(t, c, `
		select seq from (select seq, at, lag(at) over (partition by workspace_id order by seq) as before from events) e
		where at < before`), "times that run backwards")
}

// requireFollowed waits until the followed views have everything, and all of it
// is signed for.
func requireFollowed(t *testing.T, c *pgx.Conn) {
	t.Helper()
	views := []string{proof.View}
	for _, v := range projections.Followed() {
		views = append(views, v.Name())
	}
	for _, view := range views {
		require.Eventually(t, func() bool {
			var behind bool
			err := c.QueryRow(t.Context(), `
				select exists (select from logs l left join checkpoints c on c.workspace_id = l.workspace_id and c.view = $1
				where l.head > coalesce(c.seq, 0))`, view).Scan(&behind)
			return err == nil && !behind
		}, patience, 5*time.Millisecond, view+" is behind")
	}
}

// requireCaughtUp proves that answers from followed views have everything.
func requireCaughtUp(t *testing.T, s *stage) {
	t.Helper()
	requireFollowed(t, s.connect())
	head := fmt.Sprint(rows(t, s.connect(),
		`select head from logs where workspace_id = (select workspace_id from workspaces where slug = 'acme')`)[0][0])
	for _, r := range s.rest {
		for _, path := range []string{"/api/v1/runs?status=active", "/api/v1/audit?limit=1"} {
			s.owner.must(t, http.StatusOK, "GET", r.url()+path, nil, "X-Svc-Min-Position", head)
		}
	}
}

// requireSigned proves that every log is what was signed for.
func requireSigned(t *testing.T, s *stage) {
	t.Helper()
	text := s.svcDB("verify")
	heads := rows(t, s.connect(), `select workspace_id::text, head from logs`)
	require.NotEmpty(t, heads)
	for _, log := range heads {
		require.Contains(t, text, fmt.Sprintf("%s: %d events verified", log...))
	}
}

// requireViewsAsRebuilt rebuilds all views and proves that nothing of them, nor
// of their form, is another than before.
func requireViewsAsRebuilt(t *testing.T, s *stage) {
	t.Helper()
	before := dump(t, s)
	require.NotEmpty(t, before)
	s.svcDB("rebuild")
	after := dump(t, s)
	for line := range before {
		if after[line] {
			delete(before, line)
			delete(after, line)
		}
	}
	require.Empty(t, before, "not rebuilt")
	require.Empty(t, after, "only rebuilt")
}

// dump returns the columns and indexes of every view, and its rows.
func dump(t *testing.T, s *stage) map[string]bool {
	t.Helper()
	c := s.connect()
	all := map[string]bool{}
	for _, v := range projections.All() {
		found := rows(t, c, `select v::text from `+v.Name()+` v`)
		switch { // nobody came by the code host, or asked for a job
		case v.Name() == "accounts", v.Name() == "farm_secrets", strings.HasPrefix(v.Name(), "job"):
		default:
			require.NotEmpty(t, found, v.Name())
		}
		form := rows(t, c, `
			select indexdef from pg_indexes where tablename = $1
			union all select concat_ws(' ', ordinal_position, column_name, data_type, is_nullable, column_default)
			from information_schema.columns where table_name = $1`, v.Name())
		for _, row := range append(found, form...) {
			line := v.Name() + ": " + row[0].(string)
			require.False(t, all[line], "twice: "+line)
			all[line] = true
		}
	}
	return all
}

// rows returns all that a query finds.
func rows(t *testing.T, c *pgx.Conn, sql string, args ...any) [][]any {
	t.Helper()
	found, err := c.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	list, err := pgx.CollectRows(found, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	require.NoError(t, err)
	return list
}
