package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

// readRanges reads ranges to their ends.
func readRanges(t *testing.T, db store.Querier, r store.Ranges) (list []events.Record, pages int) {
	t.Helper()
	for ; len(r.Logs) > 0; pages++ {
		page, ends, err := r.Read(t.Context(), db)
		require.NoError(t, err)
		require.Less(t, sizeOf(page), store.PageBytes+len(r.Logs)*(largeEvent+1000))
		list = append(list, page...)
		var rest []store.Range
		for i, end := range ends {
			require.Equal(t, r.Logs[i].Workspace, end.Workspace)
			require.Greater(t, end.Seq, r.Logs[i].From)
			if end.Seq < r.Logs[i].To {
				rest = append(rest, store.Range{Workspace: end.Workspace, From: end.Seq, To: r.Logs[i].To})
			}
		}
		r.Logs = rest
	}
	return list, pages
}

func TestRangesLeaveKindsOut(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	a, b := newID(), newID()
	for i := range 20 {
		for _, w := range []events.ID{a, b} {
			c := commit(w, newID(), 0, "")
			if i%5 == 0 {
				c.Writes[0].Events = []events.Event{events.RunCancelled{}}
			}
			append1(t, s, c)
		}
	}
	logs := []store.Range{{Workspace: a, From: 1, To: 11}, {Workspace: b, From: 0, To: 20}}
	list, pages := readRanges(t, db, store.Ranges{Logs: logs, Skip: []string{"run.facts_recorded", "run.queued"}})
	require.Equal(t, 1, pages)
	var seqs []int64
	for _, r := range list {
		require.Equal(t, events.RunCancelled{}, r.Event)
		seqs = append(seqs, r.Seq)
	}
	require.Equal(t, []int64{6, 11, 1, 6, 11, 16}, seqs)

	list, _ = readRanges(t, db, store.Ranges{Logs: logs})
	require.Len(t, list, 30)
	list, pages = readRanges(t, db, store.Ranges{Logs: logs, Skip: events.Kinds()})
	require.Empty(t, list)
	require.Equal(t, 1, pages)
}

// A page of ranges ends once it has PageBytes.
func TestRangesAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	const count = 50
	a, b, c := appendLarge(t, s, count), appendLarge(t, s, count), newID()
	append1(t, s, commit(c, newID(), 0, ""))
	logs := []store.Range{{Workspace: a, To: count}, {Workspace: b, To: count}, {Workspace: c, To: 1}}
	list, pages := readRanges(t, db, store.Ranges{Logs: logs})
	at := map[events.ID]int64{}
	for _, r := range list {
		require.Equal(t, at[r.Workspace]+1, r.Seq)
		at[r.Workspace] = r.Seq
	}
	require.Equal(t, map[events.ID]int64{a: count, b: count, c: 1}, at)
	require.Greater(t, pages, 2*count*largeEvent/store.PageBytes/2)
}

// An event that is missing, or that a newer build wrote, is noticed even among kinds that are left out.
func TestRangesSkipNothingUnknown(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w := newID()
	for range 5 {
		append1(t, s, commit(w, newID(), 0, ""))
	}
	r := store.Ranges{Logs: []store.Range{{Workspace: w, To: 5}}, Skip: events.Kinds()}
	_, err := db.Exec(t.Context(), `update events set kind = 'run.invented' where workspace_id = $1 and seq = 3`, w)
	require.NoError(t, err)
	_, _, err = r.Read(t.Context(), db)
	require.ErrorContains(t, err, `unknown kind "run.invented"`)

	_, err = db.Exec(t.Context(), `delete from events where workspace_id = $1 and seq = 3`, w)
	require.NoError(t, err)
	_, _, err = r.Read(t.Context(), db)
	require.ErrorContains(t, err, "log "+w.String()+": events are missing")
	r.Logs[0].To = 2
	_, _, err = r.Read(t.Context(), db)
	require.NoError(t, err)
}
