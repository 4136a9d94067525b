package auditlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/auditlog"
	"svc/projections/fold"
	"svc/projections/rebuild"
	"svc/test/pgtest"
	"svc/test/world"
)

// However far the index has come, a search finds the records that a scan of the log finds, in
// order.
func TestAuditSearchEqualsFullScan(t *testing.T) {
	t.Parallel()
	w := &world.World{URL: pgtest.URL(t), Clock: world.NewClock()}
	w.DB = world.Connect(t, w.URL)
	w.Log = store.New(w.DB, nil, func(events.ID, int64) {}) // the events are unrelated
	t.Cleanup(w.Log.Close)
	const count = 4_500 // more than a segment
	workspace := world.NewID()
	random := rand.New(rand.NewPCG(1, 2))
	fillAtRandom(t, w, workspace, random, count)
	all := scanLog(t, w, workspace)
	require.Len(t, all, count)

	compare := func(t *testing.T, queries, limit int) {
		t.Helper()
		for range queries {
			f := filterFor(random, all)
			var want []int64
			for _, r := range all {
				if matchesFilter(f, r) {
					want = append(want, r.Seq)
				}
			}
			require.Equal(t, want, rowsForward(t, w, workspace, f), "%+v", f)
			slices.Reverse(want)
			require.Equal(t, want, pagesBackward(t, w, workspace, f, limit), "%+v", f)
			slices.Reverse(want)
			require.Equal(t, want, pagesForward(t, w, workspace, f, limit), "%+v", f)
			n, exact, err := auditlog.Audit{DB: w.DB}.Count(t.Context(), workspace, f, 300)
			require.NoError(t, err)
			if exact {
				require.Len(t, want, n, "%+v", f)
			} else {
				require.Equal(t, 300, n, "%+v", f)
				require.Greater(t, len(want), 300, "%+v", f)
			}
		}
	}
	t.Run("without an index", func(t *testing.T) { compare(t, 6, 3_000) })
	require.NoError(t, world.Err(rebuild.Log(t.Context(), w.DB, world.View(t, "audit"), workspace, rebuild.Options{})))
	t.Run("rebuilt", func(t *testing.T) { compare(t, 30, 200) })
	rebuilt := world.Dump(t, w.DB, "audit")

	_, err := w.DB.Exec(t.Context(), `truncate audit, checkpoints`)
	require.NoError(t, err)
	f := world.Follow(t, w.DB)
	world.Await(t, f, "audit", workspace, count)
	require.Equal(t, rebuilt, world.Dump(t, w.DB, "audit"))
	for i := range 150 { // one event at a time, across the ends of blocks
		fillAtRandom(t, w, workspace, random, 1)
		f.Moved(workspace, 0)
		if i%50 == 0 {
			all = scanLog(t, w, workspace)
			compare(t, 3, 700)
		}
	}
	world.Await(t, f, "audit", workspace, count+150)
	all = scanLog(t, w, workspace)
	t.Run("followed", func(t *testing.T) { compare(t, 10, 150) })
	live := world.Dump(t, w.DB, "audit")
	world.Rebuild(t, w.DB, world.View(t, "audit"))
	require.Equal(t, live, world.Dump(t, w.DB, "audit"))

	for _, r := range []auditlog.AuditRecord{all[0], all[127], all[128], all[4_200], all[count+149]} {
		one, ok, err := auditlog.Audit{DB: w.DB}.Get(t.Context(), workspace, r.ID)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, r, one)
	}
	_, ok, err := auditlog.Audit{DB: w.DB}.Get(t.Context(), workspace, world.NewID())
	require.NoError(t, err)
	require.False(t, ok)
}

// fillAtRandom appends events of runs, members and refusals. Some do not contain the name of their
// target.
func fillAtRandom(t *testing.T, w *world.World, workspace events.ID, random *rand.Rand, count int) {
	t.Helper()
	id := func(kind byte, n int) (id events.ID) {
		id[0], id[15] = kind, byte(n)
		return id
	}
	for count > 0 {
		n := min(count, 1+random.IntN(100))
		count -= n
		who := random.IntN(8)
		by := events.Actor{Type: events.ByUser, ID: id(1, who), Name: fmt.Sprintf("Person%d@acme.example", who)}
		if who == 7 {
			by = events.Actor{Type: events.ByService, ID: id(2, who), Name: "service:ci-bot"}
		}
		var list []events.Event
		run := random.IntN(30)
		for range n {
			member := random.IntN(20)
			switch random.IntN(200) {
			case 0:
				list = append(list, events.RunQueued{Repo: web, IssueNumber: 100*random.IntN(3) + run})
			case 1:
				list = append(list, events.MemberRoleChanged{Member: id(4, member), Email: fmt.Sprintf("mia%d@acme.example", member),
					From: events.Viewer, To: events.Owner})
			case 2:
				list = append(list, events.CommandDenied{Action: "member.removed", Target: id(4, member), Code: "last_owner"})
			case 3:
				list = append(list, events.CommandDenied{Action: "invitation.sent", Name: "Älva@acme.example", Code: "role_required"})
			case 4:
				list = append(list, events.DecisionVoided{Decision: id(5, member), Reason: "moved"})
			default:
				list = append(list, events.RunCostRecorded{Cents: 1})
			}
		}
		w.Record(t, by, workspace, id(3, run), list...)
	}
}

// scanLog reads all records and determines the names of their targets.
func scanLog(t *testing.T, w *world.World, workspace events.ID) (list []auditlog.AuditRecord) {
	t.Helper()
	records, err := store.Page{Logs: store.After(workspace, 0), Limit: 1_000_000, Decode: store.Lenient}.Read(t.Context(), w.DB)
	require.NoError(t, err)
	names := map[events.ID]string{}
	for _, r := range records {
		found := auditlog.NewAuditRecord(r, "")
		if found = auditlog.NewAuditRecord(r, names[found.Target.ID]); !found.Target.ID.IsZero() {
			names[found.Target.ID] = found.Target.Name
		}
		list = append(list, found)
	}
	return list
}

// filterFor returns a random filter that usually matches some of the records.
func filterFor(random *rand.Rand, all []auditlog.AuditRecord) (f auditlog.AuditFilter) {
	r := all[random.IntN(len(all))]
	some := func(text ...string) string { return text[random.IntN(len(text))] }
	for range random.IntN(4) {
		switch random.IntN(8) {
		case 0:
			f.Actor = some(r.Actor.Name, r.Actor.ID.String(), strings.ToUpper(r.Actor.ID.String()), "nobody")
			if other := all[random.IntN(len(all))]; random.IntN(3) == 0 {
				f.Actor += "," + some(other.Actor.Name, other.Actor.ID.String())
			}
		case 1:
			f.ActorType = r.Actor.Type
		case 2:
			noun, verb, _ := strings.Cut(r.Action, ".")
			f.Action = some(r.Action, noun+".*", noun[:2]+"*", noun+"."+verb[:2]+"*", "*", "farm.*")
			if other := all[random.IntN(len(all))].Action; random.IntN(2) == 0 {
				f.Action += "," + some(other, other[:5]+"*", "member.*", "invitation.*")
			}
		case 3:
			f.Target = some(r.Target.Name, r.Target.ID.String())
		case 4:
			f.Q = some("role_", "ACME/web#1", "älva", "Person3", "cost", "nothing of that kind")
		case 5:
			f.From = r.At
		case 6:
			f.To = r.At.Add(time.Duration(random.IntN(3)) * time.Microsecond)
		case 7:
			f.Category = events.Categories[random.IntN(len(events.Categories))]
		}
	}
	return f
}

// matchesFilter reports whether a record matches a filter, without an index.
func matchesFilter(f auditlog.AuditFilter, r auditlog.AuditRecord) bool {
	var named func(asked, name string, id events.ID) bool
	named = func(asked, name string, id events.ID) bool {
		if one, others, several := strings.Cut(asked, ","); several {
			return named(one, name, id) || named(others, name, id)
		}
		return asked == "" || asked == name || strings.ToLower(asked) == name || strings.EqualFold(asked, id.String())
	}
	acts := func(actions []string) bool {
		return slices.ContainsFunc(actions, func(action string) bool {
			prefix, isPrefix := strings.CutSuffix(action, "*")
			return action == "" || action == r.Action || isPrefix && strings.HasPrefix(r.Action, prefix)
		})
	}
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(f.Q)) }
	return named(f.Actor, r.Actor.Name, r.Actor.ID) && named(f.Target, r.Target.Name, r.Target.ID) &&
		(f.ActorType == "" || f.ActorType == r.Actor.Type) &&
		acts(strings.Split(f.Action, ",")) && (f.Category == "" || acts(f.Category.Actions())) &&
		(has(r.Action) || has(r.Actor.Name) || has(r.Target.Name)) &&
		(f.From.IsZero() || !r.At.Before(f.From)) && (f.To.IsZero() || r.At.Before(f.To))
}

func rowsForward(t *testing.T, w *world.World, workspace events.ID, f auditlog.AuditFilter) (found []int64) {
	t.Helper()
	const limit = 500
	head, _, err := projections.History{DB: w.DB}.Head(t.Context(), workspace)
	require.NoError(t, err)
	for after := int64(0); ; after = found[len(found)-1] {
		list, err := auditlog.Audit{DB: w.DB}.RowsAfter(t.Context(), workspace, f, after, head, limit)
		require.NoError(t, err)
		for i := range list {
			found = append(found, list[i].Seq())
		}
		if len(list) < limit {
			return found
		}
	}
}

// A server that does not have all records asked for says so, instead of ending the list early.
func TestAuditRowsOfServerThatLags(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	w.Record(t, world.System, workspace, workspace, events.WorkspaceCreated{Name: "Acme", Slug: "acme"})
	for _, f := range []auditlog.AuditFilter{{}, {To: w.Clock.Now().Add(-time.Hour)}} {
		_, err := auditlog.Audit{DB: w.DB}.RowsAfter(t.Context(), workspace, f, 0, 2, 500)
		require.ErrorIs(t, err, fold.ErrNotCaughtUp)
	}
	acquired := w.DB.Stat().AcquireCount()
	list, err := auditlog.Audit{DB: w.DB}.RowsAfter(t.Context(), workspace, auditlog.AuditFilter{}, 0, 1, 500)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, acquired+1, w.DB.Stat().AcquireCount(), "all statements have the same connection, and so the same server")
}

// Targets have names from earlier records. If the index ends too far before a record for them to be looked up, the
// record is not returned without its name.
func TestAuditRowsFarBeyondIndex(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace, run := world.NewID(), world.NewID()
	w.Record(t, world.System, workspace, run, events.RunQueued{Repo: events.Repo{Name: "acme/web"}, IssueNumber: 7})
	const count = 9000
	_, err := w.DB.Exec(t.Context(), `
		with moved as (update logs set head = $3 where workspace_id = $1)
		insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		select $1, n, gen_random_uuid(), $2, n, 'run.cost_recorded', 1, at, meta, '{"cents":7,"source":"compute","quantity":1}'
		from events, generate_series(2, $3::bigint) n where workspace_id = $1`, workspace, run, count)
	require.NoError(t, err)
	audit := auditlog.Audit{DB: w.DB}
	_, err = audit.RowsAfter(t.Context(), workspace, auditlog.AuditFilter{}, count-1, count, 500)
	require.ErrorIs(t, err, fold.ErrNotCaughtUp)
	_, err = rebuild.Log(t.Context(), w.DB, world.View(t, "audit"), workspace, rebuild.Options{})
	require.NoError(t, err)
	rows, err := audit.RowsAfter(t.Context(), workspace, auditlog.AuditFilter{}, count-1, count, 500)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, "acme/web#7", rows[0].Record().Target.Name)
}

func pagesForward(t *testing.T, w *world.World, workspace events.ID, f auditlog.AuditFilter, limit int) (found []int64) {
	t.Helper()
	for after := int64(0); ; {
		page, err := auditlog.Audit{DB: w.DB}.PageAfter(t.Context(), workspace, f, after, limit)
		require.NoError(t, err)
		for _, r := range page.Records {
			found = append(found, r.Seq)
		}
		if page.Next == 0 {
			return found
		}
		require.Greater(t, page.Next, after)
		after = page.Next
	}
}

func pagesBackward(t *testing.T, w *world.World, workspace events.ID, f auditlog.AuditFilter, limit int) (found []int64) {
	t.Helper()
	for before := int64(0); ; {
		page, err := auditlog.Audit{DB: w.DB}.Page(t.Context(),
			auditlog.AuditQuery{Workspace: workspace, Before: before, Limit: limit, AuditFilter: f})
		require.NoError(t, err)
		for _, r := range page.Records {
			found = append(found, r.Seq)
		}
		if page.Next == 0 {
			return found
		}
		before = page.Next
	}
}

// Of several servers behind one address, each connection may be to another, one of which lags.
func TestAuditSearchAsksOneServer(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	w.Record(t, world.System, workspace, workspace, events.WorkspaceCreated{Name: "Acme", Slug: "acme"})
	renamed := events.WorkspaceRenamed{FromName: "Acme", FromSlug: "acme", Name: "Acme", Slug: "acme"}
	w.Record(t, world.System, workspace, workspace, slices.Repeat([]events.Event{renamed}, 299)...)
	w.CaughtUp(t)
	_, err := w.DB.Exec(t.Context(), `
		create schema lagging;
		create view lagging.logs as select workspace_id, head - 100 as head from logs;
		create view lagging.checkpoints as select workspace_id, view, seq - 100 as seq from checkpoints;
		create view lagging.events as select * from events where seq <= 200`)
	require.NoError(t, err)
	var acquired int
	servers := auditlog.Audit{DB: world.Connect(t, w.URL, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			acquired++
			_, err := conn.Exec(ctx, `set search_path = `+[]string{"public", "lagging, public"}[acquired%2])
			return true, err
		}
	})}
	heads := map[int64]bool{}
	for range 2 {
		page, err := servers.Page(t.Context(), auditlog.AuditQuery{Workspace: workspace, Limit: 50})
		require.NoError(t, err)
		heads[page.Head] = true
		for i, r := range page.Records {
			require.Equal(t, page.Head-int64(i), r.Seq)
		}
		require.Len(t, page.Records, 50)
		page, err = servers.PageAfter(t.Context(), workspace, auditlog.AuditFilter{}, 150, 200)
		require.NoError(t, err)
		heads[page.Head] = true
		for i, r := range page.Records {
			require.EqualValues(t, 151+i, r.Seq)
		}
		require.Len(t, page.Records, int(page.Head)-150)
		acquired++ // the other server is the next one
	}
	require.Len(t, heads, 2)
}

// Records are found by id also while a log has the time of a process whose clock was ahead.
func TestAuditRecordIsFoundAfterClockThatWasAhead(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	for _, ahead := range []time.Duration{0, 3 * time.Hour, 0, time.Hour, 0} {
		done, err := w.Log.Append(t.Context(), &events.Commit{
			Workspace: workspace, At: w.Clock.Now().Add(ahead), Envelope: events.Envelope{Actor: world.System, Origin: events.FromSystem},
			Writes: []events.Write{{Stream: world.NewID(), Events: []events.Event{events.RunFactsRecorded{}}}},
		})
		require.NoError(t, err)
		r, ok, err := auditlog.Audit{DB: w.DB}.Get(t.Context(), workspace, done.Records[0].ID)
		require.NoError(t, err)
		require.True(t, ok, ahead)
		require.Equal(t, done.Head, r.Seq)
	}
}
