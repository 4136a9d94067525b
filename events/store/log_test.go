package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

const (
	tailWriters = 16
	tailCommits = 50 // for each writer
)

// 16 writers in two processes, and a reader for each log that reads without pausing.
func TestTailingReadersMissNothingAndSeeNothingTwice(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	wide := func(c *pgxpool.Config) { c.MaxConns = 8 }
	workspaces := []events.ID{newID(), newID(), newID(), newID()}
	hints := map[events.ID]chan struct{}{}
	for _, w := range workspaces {
		hints[w] = make(chan struct{}, 1)
	}
	moved := func(workspace events.ID, _ int64) {
		select {
		case hints[workspace] <- struct{}{}:
		default:
		}
	}
	var stores []*store.Store
	for range 2 {
		s := store.New(connect(t, url, wide), nil, moved)
		t.Cleanup(s.Close)
		stores = append(stores, s)
	}

	written := make(chan struct{}) // closed when every commit is answered
	tails := make(map[events.ID]*tail)
	var readers, writers sync.WaitGroup
	db := connect(t, url)
	for _, w := range workspaces {
		l := &tail{workspace: w}
		tails[w] = l
		readers.Go(func() { l.follow(t, db, hints[w], written) })
	}
	answers := make([]map[events.ID][]events.Record, tailWriters)
	for i := range answers {
		writers.Go(func() { answers[i] = write(t, stores[i%2], workspaces, i) })
	}
	writers.Wait()
	close(written)
	readers.Wait()
	if t.Failed() {
		return
	}

	total := 0
	for _, w := range workspaces {
		acknowledged := map[int64]events.Record{}
		for _, a := range answers {
			for _, r := range a[w] {
				require.NotContains(t, acknowledged, r.Seq, "two events were given one number")
				acknowledged[r.Seq] = r
			}
		}
		requireSame(t, acknowledged, tails[w].seen)
		require.EqualValues(t, len(tails[w].seen), head(t, db, w))
		total += len(tails[w].seen)
	}
	require.Greater(t, total, tailWriters*tailCommits, "several events in a commit")
}

// requireSame requires that a reader saw the numbers 1 to n, in order, each with exactly
// the event that was acknowledged under it.
func requireSame(t *testing.T, acknowledged map[int64]events.Record, seen []events.Record) {
	t.Helper()
	require.Len(t, seen, len(acknowledged))
	var before time.Time
	for i, r := range seen {
		require.EqualValues(t, i+1, r.Seq)
		a := acknowledged[r.Seq]
		require.Equal(t, a, r, "event %d", r.Seq)
		data, err := events.Encode(a.Event)
		require.NoError(t, err)
		require.Equal(t, string(data), string(r.Data), "event %d", r.Seq)
		require.False(t, r.At.Before(before), "event %d is earlier than the one before it", r.Seq)
		before = r.At
	}
}

// A tail reads a log continuously.
type tail struct {
	workspace events.ID
	seen      []events.Record
}

func (l *tail) follow(t *testing.T, db *pgxpool.Pool, hint, written <-chan struct{}) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for last := false; ; {
		list, err := store.Page{Logs: store.After(l.workspace, int64(len(l.seen))), Limit: 1 + rand.IntN(20)}.Read(ctx, db)
		if !assert.NoError(t, err) {
			return
		}
		l.seen = append(l.seen, list...)
		switch {
		case len(list) > 0:
			continue
		case last:
			return
		}
		select {
		case <-hint:
		case <-written:
			last = true
		}
	}
}

// write appends commits of one to six events, in one to three streams that nobody else
// writes to, with a clock that jumps. It returns what was acknowledged.
func write(t *testing.T, s *store.Store, workspaces []events.ID, writer int) map[events.ID][]events.Record {
	random := rand.New(rand.NewPCG(7, uint64(writer)))
	streams := []events.ID{newID(), newID(), newID()}
	versions := map[[2]events.ID]int{}
	answers := map[events.ID][]events.Record{}
	for i := range tailCommits {
		w := workspaces[random.IntN(len(workspaces))]
		c := commit(w, events.ID{}, 0, "")
		c.At = epoch.Add(time.Duration(random.IntN(7_200_000_000)-3_600_000_000) * time.Microsecond)
		c.Writes = nil
		for _, stream := range streams[:1+random.IntN(3)] {
			list := markedEvents(fmt.Sprintf("%d.%d.%s", writer, i, stream), 1+random.IntN(2))
			c.Writes = append(c.Writes, events.Write{Stream: stream, Version: versions[[2]events.ID{w, stream}], Events: list})
			versions[[2]events.ID{w, stream}] += len(list)
		}
		done, err := s.Append(t.Context(), c)
		if !assert.NoError(t, err) {
			return answers
		}
		assert.Equal(t, done.Head, done.Records[len(done.Records)-1].Seq)
		answers[w] = append(answers[w], done.Records...)
	}
	return answers
}

func TestAfterPages(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, stream := newID(), newID()
	c := commit(w, stream, 0, "")
	c.Writes[0].Events = markedEvents("x", 5)
	append1(t, s, c)

	for name, test := range map[string]struct {
		after int64
		limit int
		want  []string
	}{
		"the first page":         {0, 2, []string{"x/0", "x/1"}},
		"a page in the middle":   {2, 2, []string{"x/2", "x/3"}},
		"the rest":               {4, 2, []string{"x/4"}},
		"nothing behind the end": {5, 2, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := store.Page{Logs: store.After(w, test.after), Limit: test.limit}.Read(t.Context(), db)
			require.NoError(t, err)
			require.Equal(t, test.want, marks(list))
		})
	}
}

func TestAfterReportsAHoleInTheLog(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, stream := newID(), newID()
	c := commit(w, stream, 0, "")
	c.Writes[0].Events = markedEvents("x", 5)
	append1(t, s, c)
	_, err := db.Exec(t.Context(), `delete from events where workspace_id = $1 and seq = 3`, w)
	require.NoError(t, err)

	list, err := store.Page{Logs: store.After(w, 0), Limit: 2}.Read(t.Context(), db)
	require.NoError(t, err)
	require.Len(t, list, 2)
	_, err = store.Page{Logs: store.After(w, 0), Limit: 10}.Read(t.Context(), db)
	require.ErrorContains(t, err, "event 3 is missing, found 4")
	_, err = store.Page{Logs: store.After(w, 2), Limit: 1}.Read(t.Context(), db)
	require.ErrorContains(t, err, "event 3 is missing, found 4")
}

func TestLogsAreNumberedSeparately(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	one, other, stream := newID(), newID(), newID() // the same stream id in both
	for i := range 3 {
		require.EqualValues(t, i+1, append1(t, s, commit(one, stream, i, "one")).Head)
	}
	require.EqualValues(t, 1, append1(t, s, commit(other, stream, 0, "other")).Head)

	list, err := s.Load(t.Context(), one, stream, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"one/0", "one/0"}, marks(list))
	require.Equal(t, []string{"other/0"}, marks(log(t, db, other)))
}
