package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/test/pgtest"
)

// decided returns a decide function that returns c, whatever is in the log.
func decided(c *events.Commit) func(events.Streams) (*events.Commit, error) {
	return func(events.Streams) (*events.Commit, error) { return c, nil }
}

// The decision sees all that was stored before, and no process can append between the
// decision and its commit.
func TestNothingComesBetweenAnExclusiveDecisionAndItsCommit(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := connect(t, url)
	s, other := open(t, connect(t, url)), open(t, connect(t, url))
	w, stream := newID(), newID()
	append1(t, s, commit(w, stream, 0, "first"))
	waiting := make(chan error, 2)
	done, err := s.Exclusively(t.Context(), w, func(in events.Streams) (*events.Commit, error) {
		list, err := in.Load(t.Context(), w, stream, 0)
		require.NoError(t, err)
		require.Equal(t, []string{"first/0"}, marks(list))
		for _, from := range []*store.Store{s, other} {
			go func() {
				_, err := from.Append(context.WithoutCancel(t.Context()), commit(w, stream, 1, "too late"))
				waiting <- err
			}()
		}
		require.Eventually(t, func() bool { return waits(t, db) == 2 }, limit, time.Millisecond)
		return commit(w, stream, len(list), "second"), nil
	})
	require.NoError(t, err)
	require.Equal(t, int64(2), done.Head)
	require.Equal(t, []string{"second/0"}, marks(done.Records))
	for range 2 {
		require.ErrorIs(t, within(t, waiting), events.ErrConflict)
	}
	require.Equal(t, []string{"first/0", "second/0"}, marks(log(t, db, w)))
}

// waits returns how many transactions wait for a lock.
func waits(t *testing.T, db *pgxpool.Pool) (n int) {
	t.Helper()
	err := db.QueryRow(t.Context(), `
		select count(distinct pid) from pg_locks l join pg_stat_activity a using (pid) where not l.granted
			and a.datname = current_database()`).Scan(&n)
	require.NoError(t, err)
	return n
}

// A decision that returns nothing, an error or panics stores nothing and releases the lock.
func TestExclusiveDecisionWithoutCommitStoresNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := connect(t, url)
	s := open(t, connect(t, url))
	w, stream := newID(), newID()
	refusal := errors.New("not this time")
	for range 3 { // more often than may run at once
		done, err := s.Exclusively(t.Context(), w, func(events.Streams) (*events.Commit, error) { return nil, nil })
		require.NoError(t, err)
		require.Zero(t, done)
		_, err = s.Exclusively(t.Context(), w, func(events.Streams) (*events.Commit, error) { return commit(w, stream, 0, "no"), refusal })
		require.Equal(t, refusal, err)
		require.PanicsWithValue(t, "no decision", func() {
			_, _ = s.Exclusively(t.Context(), w, func(events.Streams) (*events.Commit, error) { panic("no decision") })
		})
		_, err = s.Exclusively(t.Context(), w, decided(&events.Commit{Workspace: w, At: epoch}))
		require.ErrorContains(t, err, "a commit has no event")
	}
	requireUntouched(t, db, w)
	append1(t, s, commit(w, stream, 0, "first"))
	_, err := s.Exclusively(t.Context(), w, decided(commit(w, stream, 0, "ahead")))
	require.ErrorIs(t, err, events.ErrConflict, "it is held against the log as every commit is")
}

// Views, keys and commands are stored as by Append.
func TestExclusiveCommitIsLikeOthers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := withCounts(t, connect(t, url))
	var moved []int64
	s := store.New(connect(t, url), []store.View{&view{}}, func(_ events.ID, head int64) { moved = append(moved, head) })
	t.Cleanup(s.Close)
	var seen []store.Batch
	s.Observe(func(b store.Batch) { seen = append(seen, b) })
	w := newID()
	c := commitWithKey(w, newID(), "k", "h", `"done"`)
	c.Claims = []events.Claim{{Key: "name", Owner: w}}
	_, err := s.Exclusively(t.Context(), w, decided(c))
	require.NoError(t, err)
	n, seq := counted(t, db, w)
	require.Equal(t, []int64{1, 1}, []int64{n, seq})

	again, err := s.Exclusively(t.Context(), w, decided(c))
	require.NoError(t, err)
	require.Equal(t, events.Committed{Head: 1, Replayed: true, Answer: []byte(`"done"`)}, again)
	other := commit(w, newID(), 0, "other")
	other.Claims = []events.Claim{{Key: "name", Owner: newID()}}
	_, err = s.Exclusively(t.Context(), w, decided(other))
	require.ErrorIs(t, err, events.ErrTaken)
	require.Equal(t, []int64{1}, moved)
	require.Equal(t, []bool{true, false, false}, []bool{seen[0].Stored, seen[1].Stored, seen[2].Stored})
}

// A caller who cannot get the lock in time gets an error, and Close waits for decisions
// that have begun.
func TestExclusiveDecisionRespectsDeadlineAndClose(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := store.New(connect(t, url), nil, func(events.ID, int64) {})
	w := newID()
	append1(t, s, commit(w, newID(), 0, "first"))
	begun, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := open(t, connect(t, url)).Exclusively(ctx, w, func(events.Streams) (*events.Commit, error) {
			close(begun)
			<-free
			return commit(w, newID(), 0, "second"), nil
		})
		done <- err
	}()
	within(t, begun)
	store.SetTimeLimit(s, time.Second)
	_, err := s.Exclusively(t.Context(), w, decided(commit(w, newID(), 0, "third")))
	store.SetTimeLimit(s, limit)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, fault.IsUnavailable(err))
	cancel() // once begun, it is carried out
	close(free)
	require.NoError(t, within(t, done))

	held := make(chan struct{})
	begun, free = make(chan struct{}), make(chan struct{})
	go func() {
		_, err := s.Exclusively(t.Context(), w, func(events.Streams) (*events.Commit, error) {
			close(begun)
			<-free
			return commit(w, newID(), 0, "fourth"), nil
		})
		done <- err
	}()
	within(t, begun)
	go func() { s.Close(); close(held) }()
	select {
	case <-held:
		require.Fail(t, "it did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	close(free)
	require.NoError(t, within(t, done))
	within(t, held)
	_, err = s.Exclusively(t.Context(), w, decided(commit(w, newID(), 0, "fifth")))
	require.ErrorIs(t, err, fault.ErrBusy)
}
