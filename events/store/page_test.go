package store_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

const largeEvent = 240 << 10 // bytes: about as large as a job may be

// appendLarge appends n large events to a new log, each in a stream of its own, and returns the log. Every
// other event hardly compresses.
func appendLarge(t *testing.T, s *store.Store, n int) events.ID {
	t.Helper()
	workspace, random := newID(), rand.New(rand.NewPCG(1, 2))
	for i := range n {
		text := strings.Repeat("x", largeEvent)
		if i%2 == 0 {
			b := make([]byte, largeEvent)
			for j := range b {
				b[j] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[random.IntN(64)]
			}
			text = string(b)
		}
		c := commit(workspace, newID(), 0, "")
		c.Writes[0].Events = []events.Event{events.RunFactsRecorded{Facts: []string{text}}}
		append1(t, s, c)
	}
	return workspace
}

func sizeOf(list []events.Record) (n int) {
	for _, r := range list {
		n += len(r.Meta) + len(r.Data)
	}
	return n
}

// A page ends once it has PageBytes, even if it has fewer events than its limit.
func TestPagesAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	const count = 50
	a, b := appendLarge(t, s, count), appendLarge(t, s, count)
	for name, page := range map[string]store.Page{
		"strict": {}, "lenient": {Decode: store.Lenient}, "stored": {Decode: store.Stored}, "kinds": {Kinds: []string{"run"}},
	} {
		page.Limit = 1000
		for _, logs := range [][]events.ID{{a}, {a, b}} {
			at, pages := map[events.ID]int64{}, 0
			for more := logs; len(more) > 0; pages++ {
				page.Logs = nil
				for _, workspace := range more {
					page.Logs = append(page.Logs, store.Position{Workspace: workspace, Seq: at[workspace]})
				}
				list, err := page.Read(t.Context(), db)
				require.NoError(t, err)
				require.Less(t, sizeOf(list), store.PageBytes+len(more)*(largeEvent+1000), name)
				for _, r := range list {
					require.Equal(t, at[r.Workspace]+1, r.Seq, name)
					at[r.Workspace] = r.Seq
				}
				more = store.LogsWithMore(list, len(more), 1000)
			}
			for _, workspace := range logs {
				require.Equal(t, int64(count), at[workspace], name)
			}
			require.Greater(t, pages, len(logs)*count*largeEvent/store.PageBytes/2, name)
		}
	}
	list, err := store.Page{Logs: store.After(a, 0), Limit: 1000, Kinds: []string{"member"}}.Read(t.Context(), db)
	require.NoError(t, err)
	require.Len(t, list, count, "events that are not wanted are not read")
}

func TestPageHasAtLeastOneEventOfEachLog(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	var from []store.Position
	for range 30 {
		from = append(from, store.Position{Workspace: appendLarge(t, s, 2)})
	}
	list, err := store.Page{Logs: from, Limit: 2, Decode: store.Lenient}.Read(t.Context(), db)
	require.NoError(t, err)
	require.Len(t, list, len(from))
	require.Len(t, store.LogsWithMore(list, len(from), 2), len(from))
}

func TestLogsWithMore(t *testing.T) {
	a, b, c := newID(), newID(), newID()
	half := make([]byte, store.PageBytes/6)
	list := []events.Record{
		{Workspace: a, Seq: 7}, {Workspace: a, Seq: 8}, {Workspace: b, Seq: 1},
		{Workspace: c, Seq: 3, Meta: half, Data: append(half, 0, 0)},
	}
	require.Equal(t, []events.ID{a, c}, store.LogsWithMore(list, 3, 2))
	require.Equal(t, []events.ID{a}, store.LogsWithMore(list, 1, 2))
	require.Empty(t, store.LogsWithMore(nil, 1, 2))
}
