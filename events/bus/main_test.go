package bus

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/natsserver"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) {
	defaultRetries = retries{2, time.Millisecond, time.Millisecond, 500 * time.Millisecond, 20 * time.Second}
	pgtest.Main(m)
}

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// limit bounds every wait of a test.
const limit = time.Minute

func newID() events.ID { return events.NewID(epoch) }

// A world has a database with a log, and a bus of some kind.
type world struct {
	db    *pgxpool.Pool
	url   string // of the database
	log   *store.Store
	cfg   Config
	notes *notes
}

// onEach runs a test on every kind of bus whose server is available.
func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t))
	})
	t.Run("NATS", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t, natsserver.Start(t, natsserver.Config{}).URL))
	})
}

func newWorld(t *testing.T, urls ...string) *world {
	t.Helper()
	w := &world{url: pgtest.URL(t), notes: &notes{}}
	w.db = w.connect(t)
	w.log = store.New(w.db, nil, func(events.ID, int64) {})
	t.Cleanup(w.log.Close)
	w.cfg = Config{URLs: urls, DB: w.db, Log: slog.New(slog.NewTextHandler(w.notes, nil))}
	return w
}

// connect returns a separate pool, as another process would have.
func (w *world) connect(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.New(t.Context(), w.url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

// open returns an open bus that is closed when t ends.
func (w *world) open(t *testing.T) *Bus {
	t.Helper()
	b, err := Open(t.Context(), w.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// append adds n events to a log and returns their ids.
func (w *world) append(t *testing.T, workspace events.ID, n int) (ids []string) {
	t.Helper()
	c := &events.Commit{
		Workspace: workspace, At: epoch,
		Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "test"}, Origin: events.FromSystem},
		Writes:   []events.Write{{Stream: newID()}},
	}
	for i := range n {
		c.Writes[0].Events = append(c.Writes[0].Events, events.RunFactsRecorded{Facts: []string{fmt.Sprint(i)}})
	}
	done, err := w.log.Append(context.WithoutCancel(t.Context()), c)
	require.NoError(t, err)
	for _, r := range done.Records {
		ids = append(ids, r.ID.String())
	}
	return ids
}

// relay publishes what a log has, until it has nothing more.
func (w *world) relay(t *testing.T, b *Bus, workspace events.ID) {
	t.Helper()
	for more := []events.ID{workspace}; len(more) > 0; {
		var err error
		more, err = NewRelay(w.db, always, w.cfg.Log).relayPage(t.Context(), b, more)
		require.NoError(t, err)
	}
}

// position returns the relay's checkpoint in a log.
func (w *world) position(t *testing.T, workspace events.ID) (seq int64) {
	t.Helper()
	require.NoError(t, w.db.QueryRow(t.Context(), `select coalesce((select seq from checkpoints where workspace_id = $1 and view = $2), 0)`,
		workspace, FollowerName).Scan(&seq))
	return seq
}

// consume runs a consumer. stop ends it and returns its error.
func consume(t *testing.T, b *Bus, c Consumer) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- b.consume(ctx, c) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return within(t, ended)
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

// listen returns a channel of the messages that a subscriber gets, which it acknowledges.
func listen(t *testing.T, b *Bus, topic, group string) <-chan *message.Message {
	t.Helper()
	s, err := b.subscribe(t.Context(), topic, group, nil)
	require.NoError(t, err)
	messages, err := s.Subscribe(context.WithoutCancel(t.Context()), topic)
	require.NoError(t, err)
	got := make(chan *message.Message, 10_000)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m := range messages {
			got <- m
			m.Ack()
		}
	})
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		reading.Wait()
	})
	return got
}

// take returns the ids of the next n messages.
func take(t *testing.T, from <-chan *message.Message, n int) (ids []string) {
	t.Helper()
	for range n {
		ids = append(ids, within(t, from).UUID)
	}
	return ids
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

// rowsOf returns the rows that a query finds.
func rowsOf[T any](t *testing.T, db *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	rows, _ := db.Query(t.Context(), sql, args...)
	list, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return list
}

// notes collects log output for a test.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// requireNext requires that the next message is the one given, not counting messages that
// were delivered before.
func requireNext(t *testing.T, taken <-chan string, seen map[string]bool, id string) {
	t.Helper()
	got := within(t, taken)
	for seen[got] {
		got = within(t, taken)
	}
	require.Equal(t, id, got)
	seen[id] = true
}

func newSilence() *slog.Logger { return slog.New(slog.DiscardHandler) }

func always(string) bool { return true }
