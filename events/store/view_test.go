package store_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

// A view counts the events of each workspace in a table. Its hooks are called at the points
// where an append can fail.
type view struct {
	loads, changes func(records []events.Record)
	fails          func(records []events.Record) error // called instead of writing
	writes         func(b *pgx.Batch, records []events.Record)
}

func (v *view) Load(b *pgx.Batch, records []events.Record) func(*pgx.Batch) error {
	if v.loads != nil {
		v.loads(records)
	}
	counts := map[events.ID]int64{}
	b.Queue(`select workspace_id, n from counts`).Query(func(rows pgx.Rows) error {
		var workspace events.ID
		var n int64
		_, err := pgx.ForEachRow(rows, []any{&workspace, &n}, func() error { counts[workspace] = n; return nil })
		return err
	})
	return func(b *pgx.Batch) error {
		if v.changes != nil {
			v.changes(records)
		}
		if v.fails != nil {
			if err := v.fails(records); err != nil {
				return err
			}
		}
		for _, r := range records {
			counts[r.Workspace]++
			b.Queue(`insert into counts values ($1, $2, $3) on conflict (workspace_id) do update set (n, seq) = (excluded.n, excluded.seq)`,
				r.Workspace, counts[r.Workspace], r.Seq)
		}
		if v.writes != nil {
			v.writes(b, records)
		}
		return nil
	}
}

func withCounts(t *testing.T, db *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	_, err := db.Exec(t.Context(), `create table counts (workspace_id uuid primary key, n bigint, seq bigint)`)
	require.NoError(t, err)
	return db
}

func counted(t *testing.T, db *pgxpool.Pool, workspace events.ID) (n, seq int64) {
	t.Helper()
	rows, _ := db.Query(t.Context(), `select n, seq from counts where workspace_id = $1`, workspace)
	_, err := pgx.ForEachRow(rows, []any{&n, &seq}, func() error { return nil })
	require.NoError(t, err)
	return n, seq
}

func TestInlineViewIsCurrentAfterCommit(t *testing.T) {
	t.Parallel()
	db := withCounts(t, pgtest.New(t))
	s := open(t, db, &view{})
	places := []events.ID{newID(), newID(), newID()}
	var all sync.WaitGroup
	for _, w := range places {
		all.Go(func() {
			for i := range int64(20) {
				_, err := s.Append(t.Context(), commit(w, newID(), 0, ""))
				if err != nil {
					t.Error(err)
					return
				}
				if n, seq := counted(t, db, w); n != i+1 || seq != i+1 {
					t.Errorf("after %d commits the view has %d, up to %d", i+1, n, seq)
				}
			}
		})
	}
	all.Wait()
}

// The view receives records with numbers and times, of the current batch only.
func TestViewReceivesNumberedRecords(t *testing.T) {
	t.Parallel()
	db := withCounts(t, pgtest.New(t))
	var told []events.Record
	s := open(t, db, &view{changes: func(records []events.Record) { told = append([]events.Record{}, records...) }})
	w := newID()
	append1(t, s, commit(w, newID(), 0, "before"))
	done := append1(t, s, rich(w))
	require.Equal(t, done.Records, told)
}

func TestFailingViewFailsOnlyItsCommit(t *testing.T) {
	t.Parallel()
	refused := errors.New("the view cannot take this in")
	bad := func(records []events.Record) bool {
		for _, r := range records {
			if marks([]events.Record{r})[0] == "bad/0" {
				return true
			}
		}
		return false
	}
	for name, v := range map[string]*view{
		"it reports an error": {fails: func(records []events.Record) error {
			if bad(records) {
				return refused
			}
			return nil
		}},
		"what it writes is refused": {writes: func(b *pgx.Batch, records []events.Record) {
			if bad(records) {
				b.Queue(`insert into counts values (null, 1, 1)`)
			}
		}},
		"what it writes is nonsense": {writes: func(b *pgx.Batch, records []events.Record) {
			if bad(records) {
				b.Queue(`insert into nowhere values (1)`)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := withCounts(t, pgtest.New(t))
			s := open(t, db, v)
			w := newID()
			b := claiming(w, newID(), true, "k")
			b.Writes[0].Events = markedEvents("bad", 1)
			b.Command = events.Command{Key: "k", Hash: []byte("h"), Answer: []byte(`1`)}
			outcomes := store.CommitTogether(s, commit(w, newID(), 0, "a"), b, commit(w, newID(), 0, "c"))
			require.NoError(t, outcomes[0].Err)
			require.Error(t, outcomes[1].Err)
			require.NotErrorIs(t, outcomes[1].Err, events.ErrOutcomeUnknown)
			require.NoError(t, outcomes[2].Err)

			require.Equal(t, []string{"a/0", "c/0"}, marks(log(t, db, w)))
			n, seq := counted(t, db, w)
			require.Equal(t, [2]int64{2, 2}, [2]int64{n, seq})
			append1(t, s, claiming(w, newID(), true, "k")) // the failed commit did not claim the key
			_, _, ok, err := s.Answer(t.Context(), w, events.ID{}, "k")
			require.NoError(t, err)
			require.False(t, ok)
		})
	}
}

func TestOnAppendIsCalledOncePerStoredCommit(t *testing.T) {
	t.Parallel()
	type move struct {
		workspace events.ID
		head      int64
	}
	var moves []move
	s := store.New(pgtest.New(t), nil, func(workspace events.ID, head int64) { moves = append(moves, move{workspace, head}) })
	t.Cleanup(s.Close)
	w, other, stream := newID(), newID(), newID()
	store.CommitTogether(s, commit(w, stream, 0, ""), commit(other, stream, 0, ""), commit(w, stream, 5, "refused"), commit(w, stream, 1, ""))
	require.ElementsMatch(t, []move{{w, 1}, {other, 1}, {w, 2}}, moves)
}
