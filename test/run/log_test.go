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
	"svc/test/world"
)

// An entry is an event in the log of acme.
type entry struct {
	Seq                   int64
	Kind, Stream, Request string
	Data                  []byte
}

// entries returns the whole log of acme.
func entries(t *testing.T, s *deployment) []entry {
	t.Helper()
	var list []entry
	for _, row := range queryRows(t, s.connect(), `
		select seq, kind, stream::text, coalesce(meta->>'requestId', ''), data::text from events
		where workspace_id = (select workspace_id from workspaces where slug = 'acme') order by seq`) {
		list = append(list, entry{row[0].(int64), row[1].(string), row[2].(string), row[3].(string), []byte(row[4].(string))})
	}
	return list
}

// requireEachCommandOnce requires that each acknowledged command is in the log once, at the
// position of its answer, that no refused one is there, and that none is there twice.
func requireEachCommandOnce(t *testing.T, s *deployment, sent []*sentCommand) {
	t.Helper()
	list := entries(t, s)
	by := map[string][]entry{}
	for _, e := range list {
		by[e.Request] = append(by[e.Request], e)
	}
	counts, roles := map[outcome]int{}, newRoleHistories(t, list)
	for _, d := range sent {
		counts[d.outcome]++
		var found []entry
		for _, id := range d.requests {
			found = append(found, by[id]...)
			delete(by, id)
		}
		requireCommand(t, d, found, roles)
	}
	delete(by, "") // of the demonstration data
	maps.DeleteFunc(by, func(_ string, list []entry) bool {
		return !slices.ContainsFunc(list, func(e entry) bool { return !isOfStart(e) })
	})
	require.Empty(t, by, "events without a request")
	requireJobsOnce(t, list)
	t.Logf("%d acknowledged, %d refused, %d unknown", counts[acknowledged], counts[refused], counts[unknown])
}

// isOfStart reports whether an event concerns what svc itself does: the enrollment of this machine, the repositories that
// it connects, and the jobs of the demonstration data.
func isOfStart(e entry) bool {
	noun, _, _ := strings.Cut(e.Kind, ".")
	return slices.Contains([]string{"authority", "enrollment", "runner", "job", "repo"}, noun)
}

// requireJobsOnce requires that no job was submitted or finished twice, and none leased, accepted or started
// twice in one epoch. All jobs here are of the demonstration data.
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

// requireCommand requires that the events found for a command agree with its outcome.
func requireCommand(t *testing.T, d *sentCommand, found []entry, roles roleHistories) {
	t.Helper()
	what := fmt.Sprintf("%+v: %+v", *d, found)
	switch {
	case d.outcome == refused:
		require.Empty(t, found, what)
		return
	case d.outcome == acknowledged && d.role != "" && len(found) == 0:
		require.Equal(t, d.role, roles.at(d.member, d.position), "acknowledged without an event, but the member had another role: %s", what)
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

// roleHistories are the roles of each member, in the order of the positions at which they were given.
type roleHistories map[string][]struct {
	since int64
	role  string
}

func newRoleHistories(t *testing.T, list []entry) roleHistories {
	t.Helper()
	all := roleHistories{}
	for _, e := range list {
		var data struct{ MemberID, Role, To string }
		if e.Kind != "member.joined" && e.Kind != "member.role_changed" {
			continue
		}
		require.NoError(t, json.Unmarshal(e.Data, &data))
		all[data.MemberID] = append(all[data.MemberID], struct {
			since int64
			role  string
		}{e.Seq, data.Role + data.To}) // member.joined has role, member.role_changed has to
	}
	return all
}

// at returns the role of a member at a position.
func (r roleHistories) at(member string, position int64) (role string) {
	for _, was := range r[member] {
		if was.since <= position {
			role = was.role
		}
	}
	return role
}

// requireLastTokensWork requires, for up to 50 accounts, that the last token that an answer showed is
// accepted at one replica, and an earlier one refused at the other.
func requireLastTokensWork(t *testing.T, s *deployment, sent []*sentCommand) {
	t.Helper()
	shown := map[string][]*sentCommand{} // commands on accounts, by account
	for _, d := range sent {
		if d.account != "" && d.role == "" {
			shown[d.account] = append(shown[d.account], d)
		}
	}
	tried := 0
	for _, list := range shown {
		last := list[len(list)-1]
		if last.token == "" {
			continue // the outcome is unknown, or the answer was lost
		}
		if tried++; tried > 50 {
			return
		}
		requireTokenReads(t, s.rest[tried%2].url(), last.token)
		for _, before := range list[:len(list)-1] {
			if before.token != "" {
				byToken(before.token).expect(t, http.StatusUnauthorized, "GET", s.rest[(tried+1)%2].url()+"/api/v1/runs?status=active", nil)
				break
			}
		}
	}
	require.Positive(t, tried)
}

// requireNoGaps requires that no log and no stream has a gap, and that no log's times run backwards.
func requireNoGaps(t *testing.T, s *deployment) {
	t.Helper()
	c := s.connect()
	require.Empty(t, queryRows(t, c, `
		select l.workspace_id, l.head, min(e.seq), max(e.seq), count(e.seq) from logs l left join events e using (workspace_id)
		group by l.workspace_id having min(e.seq) <> 1 or max(e.seq) <> l.head or count(e.seq) <> l.head`), "logs with a gap")
	require.Empty(t, queryRows(t, c, `
		select workspace_id, stream from events group by 1, 2 having min(version) <> 1 or max(version) <> count(*)`), "streams with a gap")
	require.Empty(t, queryRows(t, c, `
		select seq from (select seq, at, lag(at) over (partition by workspace_id order by seq) as before from events) e
		where at < before`), "times that run backwards")
}

// requireFollowersCaughtUp waits until the followed views and the Merkle logs have reached the head of every log.
func requireFollowersCaughtUp(t *testing.T, c *pgx.Conn) {
	t.Helper()
	views := []string{proof.FollowerName}
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
		}, waitLimit, 5*time.Millisecond, view+" is behind")
	}
}

// requireCaughtUp waits for all followers, and requires that both replicas answer at the head of acme's log.
func requireCaughtUp(t *testing.T, s *deployment) {
	t.Helper()
	requireFollowersCaughtUp(t, s.connect())
	head := fmt.Sprint(queryRows(t, s.connect(),
		`select head from logs where workspace_id = (select workspace_id from workspaces where slug = 'acme')`)[0][0])
	for _, r := range s.rest {
		for _, path := range []string{"/api/v1/runs?status=active", "/api/v1/audit?limit=1"} {
			s.owner.expect(t, http.StatusOK, "GET", r.url()+path, nil, "X-Svc-Min-Position", head)
		}
	}
}

// requireSigned requires that svc-db verifies every log up to its head.
func requireSigned(t *testing.T, s *deployment) {
	t.Helper()
	text := s.svcDB("verify")
	heads := queryRows(t, s.connect(), `select workspace_id::text, head from logs`)
	require.NotEmpty(t, heads)
	for _, log := range heads {
		require.Contains(t, text, fmt.Sprintf("%s: %d events verified", log...))
	}
}

// requireViewsAsRebuilt rebuilds all views and requires that rows, columns and indexes stay the same.
func requireViewsAsRebuilt(t *testing.T, s *deployment) {
	t.Helper()
	before := dumpViews(t, s)
	require.NotEmpty(t, before)
	s.svcDB("rebuild")
	after := dumpViews(t, s)
	for line := range before {
		if after[line] {
			delete(before, line)
			delete(after, line)
		}
	}
	require.Empty(t, before, "not rebuilt")
	require.Empty(t, after, "only rebuilt")
}

// dumpViews returns the rows, columns and indexes of every view as lines.
func dumpViews(t *testing.T, s *deployment) map[string]bool {
	t.Helper()
	c := s.connect()
	all, touched := map[string]bool{}, world.Touched(t, c)
	for _, v := range projections.All() {
		found := queryRows(t, c, `select v::text from `+v.Name()+` v`)
		require.Equal(t, touched[v.Name()], len(found) > 0, "%s: has rows if and only if events say so", v.Name())
		form := queryRows(t, c, `
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

// queryRows returns all rows of a query.
func queryRows(t *testing.T, c *pgx.Conn, sql string, args ...any) [][]any {
	t.Helper()
	found, err := c.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	list, err := pgx.CollectRows(found, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	require.NoError(t, err)
	return list
}
