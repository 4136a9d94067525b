package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// epoch is the time of commits in these tests, unless they set another one.
var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// limit bounds every wait of a test.
const limit = 30 * time.Second

// open returns a store that is closed when t ends.
func open(t *testing.T, db *pgxpool.Pool, views ...store.View) *store.Store {
	t.Helper()
	s := store.New(db, views, func(events.ID, int64) {})
	t.Cleanup(s.Close)
	return s
}

// connect returns a separate pool on the database at url, as another process would have.
func connect(t *testing.T, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	for _, f := range change {
		f(config)
	}
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

func newID() events.ID { return events.NewID(epoch) }

// markedEvents returns n events that carry the mark, by which tests recognize them.
func markedEvents(mark string, n int) (list []events.Event) {
	for i := range n {
		list = append(list, events.RunFactsRecorded{Facts: []string{fmt.Sprintf("%s/%d", mark, i)}})
	}
	return list
}

// commit returns a commit of one event to one stream.
func commit(workspace, stream events.ID, version int, mark string) *events.Commit {
	return &events.Commit{
		Workspace: workspace, At: epoch,
		Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "test"}, Origin: events.FromSystem},
		Writes:   []events.Write{{Stream: stream, Version: version, Events: markedEvents(mark, 1)}},
	}
}

// append1 appends c and requires that it succeeds.
func append1(t *testing.T, s *store.Store, c *events.Commit) events.Committed {
	t.Helper()
	done, err := s.Append(t.Context(), c)
	require.NoError(t, err)
	require.False(t, done.Replayed)
	return done
}

// log returns all records of a workspace's log.
func log(t *testing.T, db store.Querier, workspace events.ID) []events.Record {
	t.Helper()
	list, err := store.Page{Logs: store.After(workspace, 0), Limit: 1_000_000}.Read(context.WithoutCancel(t.Context()), db)
	require.NoError(t, err)
	return list
}

// marks returns the marks of records, in order.
func marks(records []events.Record) []string {
	list := []string{}
	for _, r := range records {
		list = append(list, r.Event.(events.RunFactsRecorded).Facts...)
	}
	return list
}

// head returns the head of a workspace's log, 0 if there is none.
func head(t *testing.T, db *pgxpool.Pool, workspace events.ID) (n int64) {
	t.Helper()
	err := db.QueryRow(t.Context(), `select coalesce((select head from logs where workspace_id = $1), 0)`, workspace).Scan(&n)
	require.NoError(t, err)
	return n
}

// requireUntouched requires that a workspace has no log.
func requireUntouched(t *testing.T, db *pgxpool.Pool, workspace events.ID) {
	t.Helper()
	require.Zero(t, head(t, db, workspace))
	require.Empty(t, log(t, db, workspace))
}

// within returns the next value of c, and fails the test if none comes in time.
func within[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(limit):
		require.FailNow(t, "nothing came")
	}
	return v
}
