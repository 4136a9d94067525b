package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/test/pgtest"
)

// gate is a view whose Load blocks for the commit that carries mark until open is closed.
type gate struct {
	view
	reached, open chan struct{}
}

func newGate(mark string) *gate {
	g := &gate{reached: make(chan struct{}), open: make(chan struct{})}
	var once sync.Once
	g.loads = func(records []events.Record) {
		if marks(records)[0] == mark+"/0" {
			once.Do(func() { close(g.reached); <-g.open })
		}
	}
	return g
}

func TestClosedStoreRefusesCommits(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := store.New(db, nil, func(events.ID, int64) {})
	s.Close()
	w := newID()
	for range 50 { // the lane has room, but no appender reads it
		_, err := s.Append(t.Context(), commit(w, newID(), 0, ""))
		require.ErrorIs(t, err, fault.ErrBusy)
	}
	requireUntouched(t, db, w)
}

func TestCloseWaitsForTheCommitThatHasBegunAndRefusesThoseBehindIt(t *testing.T) {
	t.Parallel()
	db := withCounts(t, pgtest.New(t))
	g := newGate("begun")
	s := store.New(db, []store.View{g}, func(events.ID, int64) {})
	w := newID()
	begun, behind := make(chan error, 1), make(chan error, 10)
	go func() {
		_, err := s.Append(t.Context(), commit(w, newID(), 0, "begun"))
		begun <- err
	}()
	within(t, g.reached)
	for range cap(behind) {
		go func() {
			_, err := s.Append(t.Context(), commit(w, newID(), 0, "behind"))
			behind <- err
		}()
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	select {
	case <-closed:
		t.Fatal("closed over a commit that had begun")
	case err := <-begun:
		t.Fatal("answered before it was stored", err)
	case <-time.After(50 * time.Millisecond): // long enough for a Close that does not wait to return
	}
	close(g.open)
	require.NoError(t, within(t, begun))
	within(t, closed)

	stored := 1
	for range cap(behind) {
		switch err := within(t, behind); err {
		case nil: // the appender had already taken it from the lane
			stored++
		default:
			require.ErrorIs(t, err, fault.ErrBusy)
		}
	}
	require.Len(t, log(t, db, w), stored)
}

func TestCancelledAppendReportsWhatHappened(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w, want := newID(), []string{}
	for i := range 20 {
		_, err := s.Append(ctx, commit(w, newID(), 0, fmt.Sprint(i)))
		if err == nil {
			want = append(want, fmt.Sprintf("%d/0", i))
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.Equal(t, want, marks(log(t, db, w)))
}

// More commits are sent than the lane has room for, behind one that blocks. Then all
// callers give up: what was queued is carried out anyway, and what was not queued never is.
func TestCallersGiveUpInAQueueThatIsFull(t *testing.T) {
	t.Parallel()
	db := withCounts(t, pgtest.New(t))
	g := newGate("first")
	s := open(t, db, g)
	ctx, giveUp := context.WithCancel(t.Context())
	w := newID()
	w[15] &^= 1 // selects the lane that is used when few commits wait
	first := make(chan error, 1)
	go func() {
		_, err := s.Append(ctx, commit(w, newID(), 0, "first"))
		first <- err
	}()
	within(t, g.reached)

	type answer struct {
		mark string
		err  error
	}
	answers := make(chan answer, store.LaneCapacity+1)
	for i := range cap(answers) {
		go func() {
			mark := fmt.Sprint(i)
			_, err := s.Append(ctx, commit(w, newID(), 0, mark))
			answers <- answer{mark + "/0", err}
		}()
	}
	giveUp()
	require.ErrorIs(t, within(t, answers).err, context.Canceled)
	close(g.open)
	require.NoError(t, within(t, first))
	want := []string{"first/0"}
	for range cap(answers) - 1 {
		a := within(t, answers)
		if a.err == nil {
			want = append(want, a.mark)
		} else {
			require.ErrorIs(t, a.err, context.Canceled)
		}
	}
	require.ElementsMatch(t, want, marks(log(t, db, w)))
}

// Somebody else locks the log's head row. The commits that wait for it fail together after
// one time limit, not one after the other.
func TestWaitingCommitsTimeOutTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db, holder := connect(t, url), connect(t, url)
	s := open(t, db)
	w := newID()
	append1(t, s, commit(w, newID(), 0, "before"))
	tx, err := holder.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), `select from logs where workspace_id = $1 for update`, w)
	require.NoError(t, err)

	const patience = 5 * time.Second
	store.SetTimeLimit(s, patience)
	begun := time.Now()
	var commits []*events.Commit
	for range 16 {
		commits = append(commits, commit(w, newID(), 0, "late"))
	}
	for _, o := range store.CommitTogether(s, commits...) {
		require.ErrorIs(t, o.Err, context.DeadlineExceeded)
		require.NotErrorIs(t, o.Err, events.ErrOutcomeUnknown)
	}
	require.Less(t, time.Since(begun), 10*patience, "16 commits, each with its own wait")

	store.SetTimeLimit(s, limit)
	require.NoError(t, tx.Rollback(t.Context()))
	append1(t, s, commit(w, newID(), 0, "after"))
	require.Equal(t, []string{"before/0", "after/0"}, marks(log(t, db, w)))
}

// Several waits, each within the limit, exceed it together. The server cancels the last of
// them before the client gives up a commit that may be on its way.
func TestSeveralWaitsAreGivenUpBeforeTheCommit(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := withCounts(t, connect(t, url))
	held := &view{writes: func(b *pgx.Batch, _ []events.Record) {
		for range 4 {
			b.Queue(`select pg_sleep(1.5)`)
		}
	}}
	s := open(t, db, held)
	w := newID()
	_, err := s.Append(t.Context(), commit(w, newID(), 0, "late"))
	require.ErrorIs(t, err, fault.ErrBusy)
	require.NotErrorIs(t, err, events.ErrOutcomeUnknown)
	requireUntouched(t, db, w)

	held.writes = nil
	append1(t, s, commit(w, newID(), 0, "after"))
	require.Equal(t, []string{"after/0"}, marks(log(t, db, w)))
}

// Commits to other logs in the same transaction are delayed and not refused.
func TestLockedLogBlocksNoOther(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db, holder := connect(t, url), connect(t, url)
	s := open(t, db)
	held := newID()
	append1(t, s, commit(held, newID(), 0, "before"))
	tx, err := holder.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), `select from logs where workspace_id = $1 for update`, held)
	require.NoError(t, err)

	store.SetTimeLimit(s, 10*time.Second)
	var commits []*events.Commit
	var others []events.ID
	for range 12 {
		others = append(others, newID())
		commits = append(commits, commit(others[len(others)-1], newID(), 0, "free"), commit(held, newID(), 0, "late"))
	}
	begun := time.Now()
	for i, o := range store.CommitTogether(s, commits...) {
		if i%2 == 0 {
			require.NoError(t, o.Err)
			continue
		}
		require.ErrorIs(t, o.Err, context.DeadlineExceeded)
		require.NotErrorIs(t, o.Err, events.ErrOutcomeUnknown)
		require.True(t, fault.IsUnavailable(o.Err))
	}
	require.Less(t, time.Since(begun), limit)
	for _, w := range others {
		require.Equal(t, []string{"free/0"}, marks(log(t, db, w)))
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, []string{"before/0"}, marks(log(t, db, held)))
}

func TestCommitWithoutEventsIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w := newID()
	for name, c := range map[string]*events.Commit{
		"no stream":                {Workspace: w, At: epoch},
		"a stream, and no event":   {Workspace: w, At: epoch, Writes: []events.Write{{Stream: newID()}}},
		"keys only":                {Workspace: w, At: epoch, Claims: []events.Claim{{Key: "k", Owner: w}}},
		"a command that is no one": {Workspace: w, At: epoch, Command: events.Command{Key: "k", Hash: []byte("h"), Answer: []byte(`1`)}},
	} {
		outcomes := store.CommitTogether(s, commit(w, newID(), 0, name), c)
		require.NoError(t, outcomes[0].Err, name)
		require.ErrorContains(t, outcomes[1].Err, "has no event", name)
	}
	require.Len(t, log(t, db, w), 4)
}
