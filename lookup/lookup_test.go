package lookup

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A source answers with its current state, and takes a second for that.
type source struct {
	value   atomic.Int64
	queries atomic.Int64
	keys    atomic.Int64 // in all queries
	err     error
}

func (s *source) ask(ctx context.Context, keys []int) (map[int]int64, error) {
	s.queries.Add(1)
	s.keys.Add(int64(len(keys)))
	seen := s.value.Load()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found := map[int]int64{}
	for _, k := range keys {
		if k >= 0 {
			found[k] = seen
		}
	}
	return found, s.err
}

func TestConcurrentLookupsShareAQuery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int64]
		s := &source{}
		s.value.Store(7)
		var all sync.WaitGroup
		start := time.Now()
		for i := range 102 { // two queries at once; a hundred lookups wait
			all.Go(func() {
				v, ok, err := g.Find(t.Context(), i%51, s.ask)
				require.NoError(t, err)
				require.True(t, ok)
				require.EqualValues(t, 7, v)
			})
			if i < maxQueries {
				synctest.Wait()
			}
		}
		all.Wait()
		require.EqualValues(t, maxQueries+1, s.queries.Load())
		require.EqualValues(t, maxQueries+51, s.keys.Load(), "each key once")
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestMissingKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int64]
		_, ok, err := g.Find(t.Context(), -1, (&source{}).ask)
		require.NoError(t, err)
		require.False(t, ok)
	})
}

// A change made before a lookup shows in its result, whatever queries are running.
func TestResultIsNeverOlderThanItsLookup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int64]
		s := &source{}
		var all sync.WaitGroup
		for i := range 200 {
			now := s.value.Add(1)
			all.Go(func() {
				v, _, err := g.Find(t.Context(), 1, s.ask)
				require.NoError(t, err)
				require.GreaterOrEqual(t, v, now)
			})
			<-time.After(time.Duration(i%7) * 50 * time.Millisecond) // in the synctest bubble's time
		}
		all.Wait()
		require.Less(t, s.queries.Load(), int64(100))
	})
}

func TestCancelledCallerDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int64]
		s := &source{}
		hurried, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 6 { // the third starts the round that waits
			all.Go(func() {
				ctx := t.Context()
				if i == 2 {
					ctx = hurried
				}
				_, ok, err := g.Find(ctx, i, s.ask)
				if i != 2 {
					require.NoError(t, err)
					require.True(t, ok)
				}
			})
			synctest.Wait()
		}
		leave()
		all.Wait()
		require.EqualValues(t, 3, s.queries.Load())

		patient, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for range maxQueries + 1 { // the last one runs the query for the caller that stays, too
			all.Go(func() { _, _, _ = g.Find(t.Context(), 1, s.ask) })
			synctest.Wait()
		}
		start := time.Now()
		_, _, err := g.Find(patient, 4, s.ask)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 500*time.Millisecond, time.Since(start))
		all.Wait()
	})
}

func TestErrorReachesAllCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int64]
		s := &source{err: errors.New("no connection")}
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				_, _, err := g.Find(t.Context(), i, s.ask)
				require.ErrorIs(t, err, s.err)
			})
		}
		all.Wait()
	})
}

func TestQueryTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int64]
		_, _, err := g.Find(t.Context(), 1, func(ctx context.Context, _ []int) (map[int]int64, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// While the database hangs, no caller waits longer than for one turn and one query, however
// many wait.
func TestWaitTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int64]
		hangs := func(ctx context.Context, _ []int) (map[int]int64, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		start := time.Now()
		var all sync.WaitGroup
		for i := range 12 * maxKeys {
			all.Go(func() {
				_, _, err := g.Find(t.Context(), i, hangs)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		all.Wait()
		require.LessOrEqual(t, time.Since(start), 2*timeout)
		v, ok, err := g.Find(t.Context(), 1, (&source{}).ask)
		require.NoError(t, err)
		require.True(t, ok, v)
	})
}

// If the query ends its goroutine, the other callers get an error.
func TestPanicInQueryIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int64]
		s := &source{}
		broken := func(context.Context, []int) (map[int]int64, error) {
			<-time.After(time.Second)
			panic("broken")
		}
		var all sync.WaitGroup
		for range maxQueries {
			all.Go(func() { _, _, _ = g.Find(t.Context(), 1, s.ask) })
			synctest.Wait()
		}
		all.Go(func() { require.Panics(t, func() { _, _, _ = g.Find(t.Context(), 1, broken) }) })
		synctest.Wait()
		_, ok, err := g.Find(t.Context(), 1, broken)
		require.ErrorIs(t, err, errInterrupted)
		require.False(t, ok)
		all.Wait()
		_, ok, err = g.Find(t.Context(), 1, s.ask)
		require.NoError(t, err)
		require.True(t, ok, "the next is not held up")
	})
}

func TestQuerySizeIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int64]
		s := &source{}
		ask := func(ctx context.Context, keys []int) (map[int]int64, error) {
			require.LessOrEqual(t, len(keys), maxKeys)
			return s.ask(ctx, keys)
		}
		var all sync.WaitGroup
		for i := range 3*maxKeys + maxQueries {
			all.Go(func() {
				_, ok, err := g.Find(t.Context(), i, ask)
				require.NoError(t, err)
				require.True(t, ok, i)
			})
			if i < maxQueries {
				synctest.Wait()
			}
		}
		all.Wait()
		require.EqualValues(t, maxQueries+3, s.queries.Load())
	})
}
