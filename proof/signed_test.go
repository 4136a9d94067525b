package proof

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/fault"
)

// records returns the records of a log as they are stored.
func (w *world) records(t testing.TB, workspace events.ID) (list []events.Record) {
	t.Helper()
	for {
		after := store.After(workspace, int64(len(list)))
		more, err := store.Page{Logs: after, Limit: 10_000, Decode: store.Stored}.Read(t.Context(), w.db)
		require.NoError(t, err)
		if len(more) == 0 {
			return list
		}
		list = append(list, more...)
	}
}

// Records are found in tiles that are full and in the last one, at any size.
func TestSignedRecordsAreRecognized(t *testing.T) {
	t.Parallel()
	w, workspace, p := newWorld(t), newID(), (*Prover)(nil)
	for _, size := range []int{1, 2, 255, 256, 257, 600, 1024} {
		p = w.prover(t)
		w.append(t, workspace, size-len(w.records(t, workspace)))
		catchUp(t, p, workspace)
		list := w.records(t, workspace)
		require.Len(t, list, size)
		require.NoError(t, p.CheckSigned(t.Context(), list), size)
		for _, seq := range []int{1, 128, 255, 256, 257, 512, 513, size} {
			if seq <= size {
				require.NoError(t, p.CheckSigned(t.Context(), list[seq-1:seq]), "%d of %d", seq, size)
			}
		}
	}
}

// Records of a log whose tiles have three levels are recognized.
func TestSignedRecordsOfLongLogAreRecognized(t *testing.T) {
	t.Parallel()
	w, workspace := newWorld(t), newID()
	w.exec(t, `insert into logs values ($1, 66000, now())`, workspace)
	w.exec(t, `insert into events select $1, n, gen_random_uuid(), gen_random_uuid(), 1, 'run.facts_recorded', 1, now(), '{}',
		json_build_object('facts', array[n::text]) from generate_series(1, 66000) n`, workspace)
	w.signAny(t, workspace)
	p, list := w.prover(t), w.records(t, workspace)
	require.NoError(t, p.CheckSigned(t.Context(), list[:1]))
	require.NoError(t, p.CheckSigned(t.Context(), list[65_535:65_536]))
	require.NoError(t, p.CheckSigned(t.Context(), list[65_999:]))
	require.NoError(t, p.CheckSigned(t.Context(), list[30_000:32_000]))
	list[40_000].Data = slices.Clone(list[40_001].Data)
	require.ErrorIs(t, p.CheckSigned(t.Context(), list[40_000:40_001]), store.ErrForeign)
}

func TestRecordsThatAreNotSignedAreRefused(t *testing.T) {
	t.Parallel()
	forged, err := verifierKeyOf("svc.example.com", otherKey(t))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		sql string
		seq int
	}{
		"changed":          {`update events set data = '{"facts":[]}' where workspace_id = $1 and seq = 300`, 300},
		"at another time":  {`update events set at = at + interval '1 second' where workspace_id = $1 and seq = 300`, 300},
		"in the last tile": {`update events set kind = 'run.merged' where workspace_id = $1 and seq = 600`, 600},
		"not signed yet":   {`select $1::uuid`, 601},
		"with its hash changed": {`update proof_tiles set hashes = set_byte(hashes, 32 * 43, get_byte(hashes, 32 * 43) # 1)
			where workspace_id = $1`, 300},
		"with a tile too short":     {`update proof_tiles set hashes = substr(hashes, 1, 9) where workspace_id = $1`, 300},
		"with a tile too long":      {`update proof_tiles set hashes = hashes || '\x00' where workspace_id = $1`, 300},
		"without tiles":             {`delete from proof_tiles where workspace_id = $1`, 300},
		"without hashes":            {`delete from proof_hashes where workspace_id = $1`, 300},
		"without checkpoints":       {`delete from proof_checkpoints where workspace_id = $1`, 300},
		"with a forged checkpoint":  {`update proof_checkpoints set note = replace(note, '600', '601') where workspace_id = $1`, 300},
		"with an older checkpoint":  {`update proof_checkpoints set note = old.note from old where workspace_id = $1`, 300},
		"with another's checkpoint": {`update proof_checkpoints set note = others.note from others where workspace_id = $1`, 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, workspace, others := newWorld(t), newID(), newID()
			p := w.prover(t)
			w.append(t, workspace, 200)
			w.append(t, others, 600)
			catchUp(t, p, workspace)
			catchUp(t, p, others)
			w.exec(t, `create table old as select note from proof_checkpoints where workspace_id = $1::uuid`, workspace)
			w.exec(t, `create table others as select note from proof_checkpoints where workspace_id = $1::uuid`, others)
			w.append(t, workspace, 400)
			catchUp(t, p, workspace)
			w.append(t, workspace, 1)
			w.exec(t, c.sql, workspace)
			require.ErrorIs(t, p.CheckSigned(t.Context(), w.records(t, workspace)[c.seq-1:c.seq]), store.ErrForeign)
		})
	}
	w, workspace := newWorld(t), newID()
	w.append(t, workspace, 3)
	catchUp(t, w.prover(t), workspace)
	p := New(w.db, ringOf(t, "b"), "svc.example.com", always, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, p.CheckSigned(t.Context(), w.records(t, workspace)), fault.ErrUnavailable, "with another key of the vault")
	w.exec(t, `update vault_secrets set public = $1`, forged)
	require.NoError(t, w.prover(t).CheckSigned(t.Context(), w.records(t, workspace)), "the key that is stored in clear is not used")
}

// BenchmarkLoad measures what checks of 2,000 events of a stream cost: none, by their MACs, and by their hashes if they
// have no MAC. Other events of the log lie between them.
func BenchmarkLoad(b *testing.B) {
	w, workspace, stream := newWorld(b), newID(), newID()
	for n := range events.LoadLimit / 10 {
		c := &events.Commit{Workspace: workspace, At: epoch, Writes: []events.Write{{Stream: stream, Version: n * 10}, {Stream: newID()}}}
		for i := range 10 {
			cost := events.RunCostRecorded{Repo: newID(), Cents: int64(i), Source: "compute", Quantity: 1}
			c.Writes[0].Events, c.Writes[1].Events = append(c.Writes[0].Events, cost), append(c.Writes[1].Events, cost, cost, cost)
		}
		_, err := w.log.Append(b.Context(), c)
		require.NoError(b, err)
	}
	p := w.prover(b)
	for more := []events.ID{workspace}; len(more) > 0; {
		var err error
		more, err = p.takePage(b.Context(), more)
		require.NoError(b, err)
	}
	checked := newLog(b, w.db, "a")
	checked.CheckLoads(ringOf(b, "a"), p.CheckSigned, slog.New(slog.DiscardHandler))
	run := func(name string, log *store.Store) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				list, err := log.Load(b.Context(), workspace, stream, 0)
				require.NoError(b, err)
				require.Len(b, list, events.LoadLimit)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events.LoadLimit), "ns/event")
		})
	}
	run("unchecked", w.log)
	run("MACs", checked)
	w.exec(b, `update events set mac = ''`)
	run("hashes", checked)
	for _, size := range []int{1, 10} {
		list := w.records(b, workspace)[:size]
		b.Run(fmt.Sprint("hashes of ", size), func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, p.CheckSigned(b.Context(), list))
			}
		})
	}
}
