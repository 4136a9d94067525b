package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

// commitWithKey returns a commit to a new stream with the idempotency key key.
func commitWithKey(workspace, actor events.ID, key, hash, answer string) *events.Commit {
	c := commit(workspace, newID(), 0, answer)
	c.Envelope.Actor.ID = actor
	c.Command = events.Command{Key: key, Hash: []byte(hash), Answer: []byte(answer)}
	return c
}

func TestRepeatedCommandHasSameAnswer(t *testing.T) {
	t.Parallel()
	db, stores := replicas(t)
	w, ann := newID(), newID()
	first := commitWithKey(w, ann, "k", "hash", `{"a": 1}`) // the space must be kept
	done := append1(t, stores[0], first)
	require.Nil(t, done.Answer)
	append1(t, stores[0], commit(w, newID(), 0, "later"))

	for name, repetition := range map[string]*events.Commit{
		"the very same commit":           first,
		"another stream, another answer": commitWithKey(w, ann, "k", "hash", `{"a":2}`),
		"one that would conflict by itself": {Workspace: w, Envelope: first.Envelope, At: epoch, Command: first.Command,
			Writes: []events.Write{{Stream: newID(), Version: 9, Events: markedEvents("x", 1)}}},
	} {
		for i, s := range stores {
			again, err := s.Append(t.Context(), repetition)
			require.NoError(t, err, name)
			require.Equal(t, events.Committed{Head: 1, Replayed: true, Answer: []byte(`{"a": 1}`)}, again, "%s, process %d", name, i)
		}
	}
	require.EqualValues(t, 2, head(t, db, w))
	require.Len(t, log(t, db, w), 2)
}

func TestRepeatedCommandDoesNotConflictWithItsOwnClaim(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, ann := newID(), newID()
	var commits []*events.Commit
	for i := range 2 {
		c := commitWithKey(w, ann, "k", "hash", fmt.Sprint(i))
		c.Claims = []events.Claim{{Key: "service_account/ci", Owner: c.Writes[0].Stream}}
		commits = append(commits, c)
	}
	append1(t, s, commits[0])
	again, err := s.Append(t.Context(), commits[1])
	require.NoError(t, err)
	require.Equal(t, events.Committed{Head: 1, Replayed: true, Answer: []byte("0")}, again)
}

func TestReusedIdempotencyKeyIsRefused(t *testing.T) {
	t.Parallel()
	db, stores := replicas(t)
	w, ann := newID(), newID()
	append1(t, stores[0], commitWithKey(w, ann, "k", "hash", `1`))
	for _, s := range stores {
		_, err := s.Append(t.Context(), commitWithKey(w, ann, "k", "other hash", `2`))
		require.ErrorIs(t, err, events.ErrKeyReused)
	}
	require.EqualValues(t, 1, head(t, db, w))
}

// Each command deletes only a few, so no request has to wait for the deletion of a whole
// month.
func TestCommandsAreForgottenAMonthLater(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, other, ann := newID(), newID(), newID()
	send := func(workspace events.ID, key string, at time.Time) events.Committed {
		c := commitWithKey(workspace, ann, key, "hash", `{}`)
		c.At = at
		done, err := s.Append(t.Context(), c)
		require.NoError(t, err)
		return done
	}
	remembered := func(workspace events.ID) (n int) {
		require.NoError(t, db.QueryRow(t.Context(), `select count(*) from commands where workspace_id = $1`, workspace).Scan(&n))
		return n
	}
	for i := range 25 {
		send(w, fmt.Sprintf("old-%02d", i), epoch.Add(time.Duration(i)*time.Second))
	}
	send(other, "old", epoch)

	month := epoch.Add(30 * 24 * time.Hour)
	require.True(t, send(w, "old-00", month).Replayed, "to the second")
	send(w, "new-1", month.Add(5*time.Second))
	require.Equal(t, 25+1-5, remembered(w), "old-00 to old-04")
	require.True(t, send(w, "old-05", month).Replayed)
	for i, left := range []int{20 + 1 - 10 + 1, 12 - 10 + 1, 3 + 1} {
		send(w, fmt.Sprintf("new-%d", i+2), month.Add(time.Hour))
		require.Equal(t, left, remembered(w))
	}
	require.False(t, send(w, "old-10", month.Add(time.Hour)).Replayed, "it happens once more")
	require.True(t, send(w, "new-1", month.Add(time.Hour)).Replayed)
	require.Equal(t, 1, remembered(other), "nothing happened there")
}

// Commands that have not expired must not be read, however many there are.
func TestForgettingReadsOnlyWhatItForgets(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	w := newID()
	append1(t, open(t, db), commit(w, newID(), 0, "now"))
	conn, err := db.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	run := func(sql string, args ...any) {
		_, err := conn.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	run(`set plan_cache_mode = force_generic_plan`)
	_, err = conn.Conn().Prepare(t.Context(), "forget", store.ForgetSQL) // planned while the table is empty
	require.NoError(t, err)
	run("forget", w, 30*24*time.Hour, 10)
	fill := `insert into commands select $1, gen_random_uuid(), n, '', '{}', 1, $2::timestamptz + n * interval '1 millisecond'
		from generate_series(1, $3::int) n`
	run(fill, w, epoch, 20_000)
	run(fill, w, epoch.Add(-60*24*time.Hour), 100)
	for _, state := range []string{"as it was planned", "analyzed"} {
		rows, err := conn.Query(t.Context(), `explain (analyze, costs off) `+store.ForgetSQL, w, 30*24*time.Hour, 10)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		plan := strings.Join(lines, "\n")
		require.NotContains(t, plan, "Rows Removed", "%s: %s", state, plan)
		require.NotContains(t, plan, "Seq Scan on commands", "%s: %s", state, plan)
		run(`analyze commands`)
	}
	var left int
	require.NoError(t, conn.QueryRow(t.Context(), `select count(*) from commands where at < $1`, epoch).Scan(&left))
	require.Equal(t, 100-2*10, left)
}

func TestIdempotencyKeyBelongsToActorAndWorkspace(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, other, ann, bob := newID(), newID(), newID(), newID()
	append1(t, s, commitWithKey(w, ann, "k", "hash", `"ann"`))
	append1(t, s, commitWithKey(w, bob, "k", "hash", `"bob"`))
	append1(t, s, commitWithKey(w, bob, "K", "hash", `"another key"`))
	append1(t, s, commitWithKey(other, ann, "k", "hash", `"elsewhere"`))
	append1(t, s, commit(w, newID(), 0, "no key at all"))
	append1(t, s, commit(w, newID(), 0, "no key either"))

	answer, hash, ok, err := s.Answer(t.Context(), w, bob, "k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "hash", string(hash))
	require.Equal(t, events.Committed{Head: 2, Replayed: true, Answer: []byte(`"bob"`)}, answer)
	_, _, ok, err = s.Answer(t.Context(), other, bob, "k")
	require.NoError(t, err)
	require.False(t, ok)
}

// A refused command may be retried under the same key.
func TestRefusedCommandIsNotRemembered(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, ann := newID(), newID()
	c := commitWithKey(w, ann, "k", "hash", `1`)
	c.Writes[0].Version = 3
	_, err := s.Append(t.Context(), c)
	require.ErrorIs(t, err, events.ErrConflict)
	c.Writes[0].Version = 0
	append1(t, s, c)
}

// Callers in two processes send each command many times at once.
func TestConcurrentRepetitionsHappenOnce(t *testing.T) {
	t.Parallel()
	db, stores := replicas(t)
	w, ann := newID(), newID()
	const rounds, times = 15, 12
	for round := range rounds {
		key := fmt.Sprint(round)
		done, errs := make([]events.Committed, times), make([]error, times)
		var all sync.WaitGroup
		for i := range times {
			c := commitWithKey(w, ann, key, "hash", fmt.Sprint(i)) // the answers differ, so that it shows whose was stored
			all.Go(func() { done[i], errs[i] = stores[i%2].Append(t.Context(), c) })
		}
		all.Wait()
		first := -1
		for i := range times {
			require.NoError(t, errs[i])
			if !done[i].Replayed {
				require.Equal(t, -1, first, "it happened twice")
				first = i
			}
		}
		require.NotEqual(t, -1, first, "it did not happen")
		for i := range times {
			require.EqualValues(t, round+1, done[i].Head)
			if i != first {
				require.Equal(t, fmt.Sprint(first), string(done[i].Answer))
			}
		}
	}
	require.Len(t, log(t, db, w), rounds)
}

func TestRepetitionsThatShareATransaction(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, ann := newID(), newID()
	outcomes := store.CommitTogether(s,
		commitWithKey(w, ann, "k", "hash", `0`),
		commitWithKey(w, ann, "k", "hash", `1`),
		commitWithKey(w, ann, "k", "other hash", `2`),
		commitWithKey(w, ann, "k2", "hash", `3`),
	)
	require.NoError(t, outcomes[0].Err)
	require.False(t, outcomes[0].Replayed)
	require.Equal(t, store.Outcome{Committed: events.Committed{Head: 1, Replayed: true, Answer: []byte(`0`)}}, outcomes[1])
	require.ErrorIs(t, outcomes[2].Err, events.ErrKeyReused)
	require.NoError(t, outcomes[3].Err)
	require.EqualValues(t, 2, outcomes[3].Head)
	require.Equal(t, []string{"0/0", "3/0"}, marks(log(t, db, w)))
}

func TestRepetitionHasPositionOfFirst(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, other, ann := newID(), newID(), newID()
	twice := commitWithKey(w, ann, "k", "hash", `0`)
	twice.Writes[0].Events = markedEvents("x", 2)
	commits := []*events.Commit{commit(w, newID(), 0, ""), twice, commit(other, newID(), 0, ""), commitWithKey(w, ann, "k2", "hash", `1`),
		commit(w, newID(), 0, "")}
	outcomes := store.CommitTogether(s, commits...)
	for _, i := range []int{1, 3} {
		require.NoError(t, outcomes[i].Err)
		again, err := s.Append(t.Context(), commits[i])
		require.NoError(t, err)
		require.Equal(t, outcomes[i].Head, again.Head)
	}
}
