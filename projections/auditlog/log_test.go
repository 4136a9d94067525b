package auditlog_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/projections/auditlog"
	"svc/projections/fold"
	"svc/projections/rebuild"
	"svc/test/world"
)

// Kinds of a newer build and damaged events are shown without changes, and later records are found.
func TestUndecodableEventsAreShownWithoutChanges(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace, member := world.NewID(), world.NewID()
	ann := events.Actor{Type: events.ByUser, ID: world.NewID(), Name: "ann@acme.example"}
	bob := events.MemberJoined{Member: member, User: world.NewID(), Email: "bob@acme.example", Role: events.Viewer}
	w.Record(t, ann, workspace, workspace, events.WorkspaceCreated{Name: "Acme", Slug: "acme"}, bob, bob, bob, bob, bob, bob)
	for seq, change := range map[int]string{
		2: `kind = 'member.knighted'`, 3: `schema = 2`, 4: `data = '[]'`, 5: `meta = '7'`, 6: `data = '{"memberId": 7}'`,
		7: `kind = 'user.registered', data = '{}'`,
	} {
		changeEvent(t, w, workspace, seq, change)
	}

	page, err := auditlog.Audit{DB: w.DB}.Page(t.Context(), auditlog.AuditQuery{Workspace: workspace, Limit: 10})
	require.NoError(t, err)
	list := page.Records
	require.Zero(t, page.Next)
	require.Equal(t, int64(7), page.Head)
	require.Equal(t, []int64{7, 6, 5, 4, 3, 2, 1}, seqs(list))
	for i, action := range []string{"user.registered", "member.joined", "member.joined", "member.joined", "member.joined", "member.knighted"} {
		require.Equal(t, action, list[i].Action)
		require.NotNil(t, list[i].Changes)
	}
	for _, i := range []int{1, 3, 4, 5} {
		require.Empty(t, list[i].Changes)
		require.Equal(t, ann.Name, list[i].Actor.Name)
		require.IsType(t, events.Undecoded{}, list[i].Event)
	}
	require.Empty(t, list[2].Actor.Name)
	require.Equal(t, bob.Kind(), list[2].Event.Kind())
	require.NotEmpty(t, list[2].Changes)

	page, err = auditlog.Audit{DB: w.DB}.Page(t.Context(),
		auditlog.AuditQuery{Workspace: workspace, Limit: 10, AuditFilter: auditlog.AuditFilter{Action: "member.knighted"}})
	require.NoError(t, err)
	list = page.Records
	require.Equal(t, []int64{2}, seqs(list))
	one, ok, err := auditlog.Audit{DB: w.DB}.Get(t.Context(), workspace, list[0].ID)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, list[0].Record, one.Record.Summary())
}

func changeEvent(t *testing.T, w *world.World, workspace events.ID, seq int, change string) {
	t.Helper()
	_, err := w.DB.Exec(t.Context(), `update events set `+change+` where workspace_id = $1 and seq = $2`, workspace, seq)
	require.NoError(t, err)
}

// The index waits for the build that knows a kind or schema, also if a process of that build has indexed up to
// the middle of a block. Damaged events are indexed.
func TestAuditIndexWaitsForNewerBuild(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ unknown, known, says string }{
		"kind":   {`kind = 'member.knighted'`, `kind = 'member.joined'`, `unknown kind "member.knighted", schema 1`},
		"schema": {`schema = 2`, `schema = 1`, `unknown kind "member.joined", schema 2`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.NewSilent(t)
			workspace, audit := world.NewID(), world.View(t, "audit")
			bob := events.MemberJoined{Member: world.NewID(), User: world.NewID(), Email: "bob@acme.example", Role: events.Viewer}
			w.Record(t, events.Actor{}, workspace, workspace, events.WorkspaceCreated{Name: "Acme", Slug: "acme"})
			for range 127 {
				w.Record(t, events.Actor{}, workspace, workspace, bob)
			}
			changeEvent(t, w, workspace, 5, `data = '[]'`)
			changeEvent(t, w, workspace, 100, test.unknown)
			require.ErrorContains(t, world.Err(world.RebuildView(t.Context(), w.DB, audit, world.IgnoreProgress)), test.says)
			rest, err := audit.Read(t.Context(), w.DB, store.After(workspace, 100), 28)
			require.NoError(t, err)
			require.ErrorContains(t, pgx.BeginFunc(t.Context(), w.DB, func(tx pgx.Tx) error {
				return fold.FoldPage(t.Context(), tx, audit, "audit", rest, func(*pgx.Batch) {})
			}), test.says)

			w.Follower = world.Follow(t, w.DB)
			require.Eventually(t, func() bool { return w.Follower.Stuck()["audit"] == 1 }, world.Limit, time.Millisecond)
			reached, err := w.Follower.Reached(t.Context(), "audit", workspace, 100)
			require.NoError(t, err)
			require.False(t, reached)
			require.Empty(t, world.Dump(t, w.DB, "audit"))

			changeEvent(t, w, workspace, 100, test.known)
			world.Await(t, w.Follower, "audit", workspace, 128)
			before := world.Dump(t, w.DB, "audit")
			require.NotEmpty(t, before)
			changeEvent(t, w, workspace, 100, test.unknown)
			compared, err := fold.Compare(t.Context(), w.DB, []fold.View{audit}, workspace, fold.NoPause)
			require.NoError(t, err)
			require.Empty(t, compared.Differences)
			require.Len(t, compared.Skipped, 1)
			require.Contains(t, compared.Skipped[0], test.says)
			changeEvent(t, w, workspace, 100, test.known)
			world.Rebuild(t, w.DB, audit)
			require.Equal(t, before, world.Dump(t, w.DB, "audit"))
		})
	}
}

// A page of a log of 100 and of 100,000 records reads about the same number of blocks. A search
// that the index does not support reads at most a window.
func TestAuditPageCostIsIndependentOfLogLength(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	short, long := world.NewID(), world.NewID()
	member, service := world.NewID(), world.NewID()
	fillLog(t, w.DB, short, member, service, 100)
	fillLog(t, w.DB, long, member, service, 100_000)
	_, err := w.DB.Exec(t.Context(), `analyze audit, events`)
	require.NoError(t, err)
	type f = auditlog.AuditFilter
	for name, test := range map[string]struct {
		filter f
		before int64
		find   bool
	}{
		"everything":             {find: true},
		"an older page":          {before: 60, find: true},
		"from a time on":         {filter: f{From: world.Epoch.Add(20 * time.Second)}, find: true},
		"up to a time":           {filter: f{To: world.Epoch.Add(30 * time.Second)}, find: true},
		"an actor's name":        {filter: f{Actor: "ann@acme.example"}, find: true},
		"an actor's id":          {filter: f{Actor: service.String()}, find: true},
		"a seldom actor":         {filter: f{Actor: "seldom@acme.example"}, find: true},
		"an actor there is not":  {filter: f{Actor: "nobody@acme.example"}},
		"a type of actor":        {filter: f{ActorType: events.ByService}, find: true},
		"a type there is not":    {filter: f{ActorType: events.ByRunner}},
		"an action":              {filter: f{Action: "run.cost_recorded"}, find: true},
		"a seldom action":        {filter: f{Action: "member.joined"}, find: true},
		"actions of a noun":      {filter: f{Action: "run.*"}, find: true},
		"of a noun there is not": {filter: f{Action: "farm.*"}},
		"a target's id":          {filter: f{Target: member.String()}, find: true},
		"a target's name":        {filter: f{Target: "acme/web#7"}, find: true},
		"a target there is not":  {filter: f{Target: "acme/web#8"}},
	} {
		t.Run(name, func(t *testing.T) {
			few := countBlocks(t, w.DB, short, test.filter, test.before, test.find)
			many := countBlocks(t, w.DB, long, test.filter, test.before, test.find)
			require.LessOrEqual(t, many, few+60, "%d blocks in a short log", few)
		})
	}
	t.Run("a missing text, in parts", func(t *testing.T) {
		q := auditlog.AuditQuery{Workspace: long, Limit: 10, AuditFilter: f{Q: "not there"}}
		var pages []int64
		for {
			page, err := auditlog.Audit{DB: w.DB}.Page(t.Context(), q)
			require.NoError(t, err)
			list, next := page.Records, page.Next
			require.Empty(t, list)
			if pages = append(pages, next); next == 0 {
				break
			}
			q.Before = next
		}
		require.Equal(t, []int64{34_433, 0}, pages)
	})
	t.Run("a missing text, from the beginning", func(t *testing.T) {
		var pages []int64
		for after := int64(0); ; after = pages[len(pages)-1] {
			page, err := auditlog.Audit{DB: w.DB}.PageAfter(t.Context(), long, f{Q: "not there"}, after, 10)
			require.NoError(t, err)
			require.Empty(t, page.Records)
			if pages = append(pages, page.Next); page.Next == 0 {
				break
			}
		}
		require.Equal(t, []int64{65_536, 0}, pages)
	})
	t.Run("a text of the first record", func(t *testing.T) {
		q := auditlog.AuditQuery{Workspace: long, Limit: 10, AuditFilter: f{Q: "SELDÖM", Action: "member.*"}}
		var found []int64
		for {
			page, err := auditlog.Audit{DB: w.DB}.Page(t.Context(), q)
			require.NoError(t, err)
			list, next := page.Records, page.Next
			if found = append(found, seqs(list)...); next == 0 {
				break
			}
			q.Before = next
		}
		require.Equal(t, []int64{1}, found)
	})
}

// fillLog creates a log of a run's costs and its index, by SQL for speed. The first record is rare;
// the second names the run acme/web#7.
func fillLog(t testing.TB, db *pgxpool.Pool, workspace, run, service events.ID, n int) {
	t.Helper()
	for _, sql := range []string{`
		insert into logs values ($1, $4, '2027-01-01')`, `
		insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		select $1, n, md5($1::text || n)::uuid, $2, n, case n when 1 then 'member.joined'
			when 2 then 'run.queued' else 'run.cost_recorded' end, 1,
			'2026-11-20T12:00:00Z'::timestamptz + n * interval '1 second',
			format('{"actor":{"type":"service","id":"%s","name":"%s@acme.example"},"origin":"system"}', $3, case n
				when 1 then 'seldom' else 'ann' end)::json,
			case n when 1 then '{"memberId":"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9","email":"seldöm@acme.example"}'
				when 2 then '{"repo":{"name":"acme/web"},"issueNumber":7}'
				else '{"repoId":"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9","cents":7,"source":"compute","quantity":1}' end::json
		from generate_series(1, $4) n`,
	} {
		sql = strings.NewReplacer("$1", quoteID(workspace), "$2", quoteID(run), "$3", quoteID(service), "$4", fmt.Sprint(n)).Replace(sql)
		_, err := db.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	_, err := rebuild.Log(t.Context(), db, world.View(t, "audit"), workspace, rebuild.Options{})
	require.NoError(t, err)
}

func quoteID(id events.ID) string { return "'" + id.String() + "'::uuid" }

// countBlocks returns how many blocks the statements of a page read.
func countBlocks(t *testing.T, db *pgxpool.Pool, workspace events.ID, f auditlog.AuditFilter, before int64, find bool) int {
	t.Helper()
	spy := &queryRecorder{}
	config := db.Config()
	config.ConnConfig.Tracer, config.MaxConns = spy, 1
	watched, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer watched.Close()
	page, err := auditlog.Audit{DB: watched}.Page(t.Context(),
		auditlog.AuditQuery{Workspace: workspace, Limit: 20, Before: before, AuditFilter: f})
	require.NoError(t, err)
	require.Equal(t, find, len(page.Records) > 0)
	total := 0
	for _, q := range spy.queries {
		var text []byte
		require.NoError(t, db.QueryRow(t.Context(), `explain (analyze, buffers, format json) `+q.SQL, q.Args...).Scan(&text))
		var plan []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		require.NoError(t, json.Unmarshal(text, &plan))
		total += plan[0].Plan.Hit + plan[0].Plan.Read
	}
	return total
}
