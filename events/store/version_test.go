package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

// replicas returns two stores that share nothing but the database.
func replicas(t *testing.T) (*pgxpool.Pool, [2]*store.Store) {
	url := pgtest.URL(t)
	wide := func(c *pgxpool.Config) { c.MaxConns = 8 }
	return connect(t, url), [2]*store.Store{open(t, connect(t, url, wide)), open(t, connect(t, url, wide))}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, two, empty := newID(), newID(), newID()
	append1(t, s, commit(w, two, 0, "first"))
	append1(t, s, commit(w, two, 1, "second"))

	for name, test := range map[string]struct {
		write events.Write
		read  []events.Read
		want  error
	}{
		"write to a new stream":              {write: events.Write{Stream: newID()}},
		"write too high to a new stream":     {write: events.Write{Stream: empty, Version: 1}, want: events.ErrConflict},
		"write far too high to a new stream": {write: events.Write{Stream: empty, Version: 1000}, want: events.ErrConflict},
		"write as if it were new":            {write: events.Write{Stream: two, Version: 0}, want: events.ErrConflict},
		"write one too low":                  {write: events.Write{Stream: two, Version: 1}, want: events.ErrConflict},
		"write one too high":                 {write: events.Write{Stream: two, Version: 3}, want: events.ErrConflict},
		"read of a stream where it stands":   {write: events.Write{Stream: newID()}, read: []events.Read{{Stream: two, Version: 2}}},
		"read of a stream that is empty":     {write: events.Write{Stream: newID()}, read: []events.Read{{Stream: empty}}},
		"read of a stream that has moved": {write: events.Write{Stream: newID()}, read: []events.Read{{Stream: two, Version: 1}},
			want: events.ErrConflict},
		"read of a stream that has begun": {write: events.Write{Stream: newID()}, read: []events.Read{{Stream: two}}, want: events.ErrConflict},
		"read of a stream too high": {write: events.Write{Stream: newID()}, read: []events.Read{{Stream: two, Version: 3}},
			want: events.ErrConflict},
		"read of a stream that never was": {write: events.Write{Stream: newID()}, read: []events.Read{{Stream: empty, Version: 1}},
			want: events.ErrConflict},
		"one of two reads has moved": {write: events.Write{Stream: newID()}, read: []events.Read{{Stream: empty}, {Stream: two, Version: 1}},
			want: events.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			before := head(t, db, w)
			test.write.Events = markedEvents(name, 1)
			c := commit(w, events.ID{}, 0, "")
			c.Writes, c.Reads = []events.Write{test.write}, test.read
			_, err := s.Append(t.Context(), c)
			if test.want == nil {
				require.NoError(t, err)
				require.Equal(t, before+1, head(t, db, w))
				return
			}
			require.ErrorIs(t, err, test.want)
			require.Equal(t, before, head(t, db, w))
			require.Len(t, log(t, db, w), int(before))
		})
	}
}

func TestRefusedCommitChangesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w, stream := newID(), newID()
	c := commit(w, stream, 7, "refused")
	c.Writes = append(c.Writes, events.Write{Stream: newID(), Events: markedEvents("good by itself", 2)})
	c.Claims = []events.Claim{{Key: "name", Owner: stream}, {Key: "address", Owner: stream, Global: true}}
	c.Command = events.Command{Key: "again", Hash: []byte("h"), Answer: []byte(`{}`)}
	_, err := s.Append(t.Context(), c)
	require.ErrorIs(t, err, events.ErrConflict)
	for _, table := range []string{"logs", "events", "unique_keys", "global_keys", "commands"} {
		var n int
		require.NoError(t, db.QueryRow(t.Context(), `select count(*) from `+table).Scan(&n))
		require.Zero(t, n, table)
	}
}

// In each round two processes write to the same stream at the same version.
func TestExactlyOneOfTwoCompetingCommitsWins(t *testing.T) {
	t.Parallel()
	db, stores := replicas(t)
	w, stream := newID(), newID()
	const rounds = 100
	var want []string
	for round := range rounds {
		var errs [2]error
		var both sync.WaitGroup
		for i, s := range stores {
			both.Go(func() { _, errs[i] = s.Append(t.Context(), commit(w, stream, round, fmt.Sprintf("%d.%d", round, i))) })
		}
		both.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		require.NoError(t, errs[winner])
		require.ErrorIs(t, errs[1-winner], events.ErrConflict)
		want = append(want, fmt.Sprintf("%d.%d/0", round, winner))
	}
	require.Equal(t, want, marks(log(t, db, w)))
	require.EqualValues(t, rounds, head(t, db, w))
}

// A writer that conflicts reads again and retries. So 32 counters in two processes, on
// three streams and in many shared transactions, must count every step.
func TestNoWriteOfManyIsLost(t *testing.T) {
	t.Parallel()
	db, stores := replicas(t)
	w := newID()
	streams := []events.ID{newID(), newID(), newID()}
	const counters, steps = 32, 3
	var all sync.WaitGroup
	for i := range counters {
		all.Go(func() {
			s, stream := stores[i%2], streams[i%3]
			for step := range steps {
				mark := fmt.Sprintf("%d.%d", i, step)
				for {
					have, err := s.Load(t.Context(), w, stream, 0)
					if !assert.NoError(t, err) {
						return
					}
					_, err = s.Append(t.Context(), commit(w, stream, len(have), mark))
					if err == nil {
						break
					}
					if !assert.ErrorIs(t, err, events.ErrConflict) {
						return
					}
				}
			}
		})
	}
	all.Wait()
	records := log(t, db, w)
	var want []string
	for i := range counters {
		for step := range steps {
			want = append(want, fmt.Sprintf("%d.%d/0", i, step))
		}
	}
	require.ElementsMatch(t, want, marks(records))
	versions := map[events.ID]int{}
	for _, r := range records { // the order of the log must be the order of each stream
		require.Equal(t, versions[r.Stream]+1, r.Version)
		versions[r.Stream]++
	}
}

// Commits that share a transaction must be stored as if they had followed one another.
func TestCommitsThatShareATransaction(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	a, b := newID(), newID()
	for name, test := range map[string]struct {
		commits func(w events.ID) []*events.Commit
		want    []string // marks of the stored records
	}{
		"all are good": {func(w events.ID) (list []*events.Commit) {
			for i := range 9 {
				list = append(list, commit(w, newID(), 0, fmt.Sprint(i)))
			}
			return list
		}, []string{"0/0", "1/0", "2/0", "3/0", "4/0", "5/0", "6/0", "7/0", "8/0"}},
		"the first, the middle and the last are not": {func(w events.ID) (list []*events.Commit) {
			for i := range 9 {
				version := 0
				if i%4 == 0 {
					version = 5
				}
				list = append(list, commit(w, newID(), version, fmt.Sprint(i)))
			}
			return list
		}, []string{"1/0", "2/0", "3/0", "5/0", "6/0", "7/0"}},
		"none is good": {func(w events.ID) []*events.Commit {
			return []*events.Commit{commit(w, a, 1, "0"), commit(w, b, 1, "1"), commit(w, a, 2, "2")}
		}, []string{}},
		"two write at the same version": {func(w events.ID) []*events.Commit {
			return []*events.Commit{commit(w, a, 0, "0"), commit(w, a, 0, "1"), commit(w, b, 0, "2")}
		}, []string{"0/0", "2/0"}},
		"one follows another": {func(w events.ID) []*events.Commit {
			return []*events.Commit{commit(w, a, 0, "0"), commit(w, a, 1, "1"), commit(w, a, 2, "2")}
		}, []string{"0/0", "1/0", "2/0"}},
		"one runs ahead of another": {func(w events.ID) []*events.Commit {
			return []*events.Commit{commit(w, a, 1, "0"), commit(w, a, 0, "1")}
		}, []string{"1/0"}},
		"one reads ahead of another": {func(w events.ID) []*events.Commit {
			return []*events.Commit{reading(commit(w, b, 0, "0"), a, 1), commit(w, a, 0, "1")}
		}, []string{"1/0"}},
		"one reads what another then writes": {func(w events.ID) []*events.Commit {
			return []*events.Commit{reading(commit(w, b, 0, "0"), a, 0), commit(w, a, 0, "1")}
		}, []string{"0/0", "1/0"}},
		"one reads what another wrote before": {func(w events.ID) []*events.Commit {
			return []*events.Commit{commit(w, a, 0, "0"), reading(commit(w, b, 0, "1"), a, 0)}
		}, []string{"0/0"}},
		"two decide by each other's streams": {func(w events.ID) []*events.Commit {
			return []*events.Commit{reading(commit(w, a, 0, "0"), b, 0), reading(commit(w, b, 0, "1"), a, 0)}
		}, []string{"0/0"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, other := newID(), newID()
			commits := test.commits(w)
			commits = append(commits, commit(other, newID(), 0, "elsewhere")) // in another workspace
			outcomes := store.CommitTogether(s, commits...)
			require.Equal(t, test.want, marks(log(t, db, w)))
			require.EqualValues(t, len(test.want), head(t, db, w))
			require.Equal(t, []string{"elsewhere/0"}, marks(log(t, db, other)))

			var acknowledged []string
			for _, o := range outcomes[:len(outcomes)-1] {
				if o.Err == nil {
					acknowledged = append(acknowledged, marks(o.Records)...)
					require.Equal(t, o.Head, o.Records[0].Seq)
				} else {
					require.ErrorIs(t, o.Err, events.ErrConflict)
				}
			}
			require.ElementsMatch(t, test.want, acknowledged)
		})
	}
}

func reading(c *events.Commit, stream events.ID, version int) *events.Commit {
	c.Reads = append(c.Reads, events.Read{Stream: stream, Version: version})
	return c
}

// An event that cannot be encoded fails only its own commit.
func TestUnencodableEventFailsOnlyItsCommit(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := open(t, db)
	w := newID()
	bad := commit(w, newID(), 0, "")
	bad.Writes[0].Events = []events.Event{unencodable{}}
	outcomes := store.CommitTogether(s, commit(w, newID(), 0, "a"), bad, commit(w, newID(), 0, "b"))
	require.NoError(t, outcomes[0].Err)
	require.ErrorIs(t, outcomes[1].Err, errUnencodable)
	require.NoError(t, outcomes[2].Err)
	require.Equal(t, []string{"a/0", "b/0"}, marks(log(t, db, w)))
}

var errUnencodable = errors.New("no words for it")

type unencodable struct{}

func (unencodable) Kind() string                 { return "test.unencodable" }
func (unencodable) MarshalJSON() ([]byte, error) { return nil, errUnencodable }
