package bus

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	sqlbus "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

func messages(n int, name string) (list []*message.Message) {
	for i := range n {
		list = append(list, message.NewMessage(fmt.Sprintf("%s-%d", name, i), []byte(name)))
	}
	return list
}

// Many writers, some slow to commit and some rolling back, write while a reader pages by
// position. The reader must find every position in turn.
func TestPositionsBecomeVisibleInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const writers, each = 16, 40
	done := make(chan struct{})
	var writing sync.WaitGroup
	for range writers {
		db := w.connect(t)
		writing.Go(func() {
			for n := range each {
				err := pgx.BeginFunc(context.WithoutCancel(t.Context()), db, func(tx pgx.Tx) error {
					one, other := newID(), newID()
					behind := []store.Position{{Workspace: one, Seq: 7}, {Workspace: other}}
					ends := []store.Position{{Workspace: one, Seq: 8}, {Workspace: other, Seq: int64(n % 5)}}
					if err := insertPositions(context.Background(), tx, behind, ends); err != nil {
						return err
					}
					if _, err := tx.Exec(context.Background(), `select pg_sleep(random() * 0.003)`); err != nil {
						return err
					}
					if n%8 == 7 {
						return context.Canceled
					}
					return nil
				})
				if err != nil && n%8 != 7 {
					t.Error(err)
				}
			}
		})
	}
	go func() { writing.Wait(); close(done) }()
	at := int64(0)
	for ended := false; ; {
		page := rowsOf[int64](t, w.db, `select position from bus_messages where topic = $1 and position > $2 order by position limit 50`, Topic,
			at)
		for _, position := range page {
			require.Equal(t, at+1, position)
			at = position
		}
		if len(page) == 0 && ended {
			break
		}
		select {
		case <-done:
			ended = true
		default:
		}
	}
	require.Equal(t, []int64{at}, rowsOf[int64](t, w.db, `select count(*) from bus_messages`))
	require.Equal(t, []int64{at}, rowsOf[int64](t, w.db, `select head from bus_topics`))
	require.EqualValues(t, writers*35*3, at, "all but each eighth")
}

// A subscriber whose transaction stays open, as a slow handler's does, blocks neither
// another group nor a publisher.
func TestSlowConsumerBlocksNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, workspace := w.open(t), newID()
	begun, proceed := make(chan bool), make(chan bool)
	consume(t, b, Consumer{Name: "slow", Handle: func(*message.Message) error {
		begun <- true
		<-proceed
		return nil
	}})
	w.append(t, workspace, 1)
	w.relay(t, b, workspace)
	within(t, begun)
	want := w.append(t, workspace, 300)
	w.relay(t, b, workspace)
	require.Equal(t, want, take(t, listen(t, b, Topic, "quick"), 301)[1:])
	close(proceed)
	for range 300 {
		within(t, begun)
	}
}

// The message of an event takes the same space, 80 bytes, however large the event is.
func TestMessageOfEventIsItsPosition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, workspace := w.open(t), newID()
	w.append(t, workspace, pageSize)
	w.relay(t, b, workspace)
	sizes := rowsOf[int64](t, w.db, `select max(pg_column_size(m.*))::bigint from bus_messages m`)
	require.Less(t, sizes[0], int64(90))
}

// Messages behind one whose event is gone are still delivered.
func TestMessageOfDeletedEventIsEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, workspace := w.open(t), newID()
	ids := w.append(t, workspace, 3)
	w.relay(t, b, workspace)
	_, err := w.db.Exec(t.Context(), `delete from events where seq = 2`)
	require.NoError(t, err)
	got := listen(t, b, Topic, "readers")
	require.Equal(t, ids[0], within(t, got).UUID)
	m := within(t, got)
	require.Empty(t, m.Payload)
	in, seq, err := PositionOf(m)
	require.NoError(t, err)
	require.Equal(t, workspace, in)
	require.EqualValues(t, 2, seq)
	require.Equal(t, ids[2], within(t, got).UUID)
}

// The next messages are found by the key, however many wait behind them.
func TestReadingCostIsIndependentOfBacklog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.db.Exec(t.Context(), `
		insert into bus_messages (topic, position, id, metadata, payload)
		select 'svc_events', n, 'id', '{}', '' from generate_series(1, 50000) n`)
	require.NoError(t, err)
	_, err = w.db.Exec(t.Context(), `insert into bus_groups values ('svc_events', 'g', 20000)`)
	require.NoError(t, err)
	_, err = w.db.Exec(t.Context(), `insert into bus_topics values ('svc_events', 50000, 100)`)
	require.NoError(t, err)
	q, err := schemaAdapter{}.SelectQuery(sqlbus.SelectQueryParams{Topic: Topic, OffsetsAdapter: offsets{"g"}})
	require.NoError(t, err)
	for _, q := range []sqlbus.Query{q, query(positionsSQL, Topic, 20000, 100), query(messagesSQL, Topic, positionsFrom(20001, 100))} {
		plan := strings.Join(rowsOf[string](t, w.db, `explain (analyze, timing off, costs off, summary off) `+q.Query, q.Args...), "\n")
		for _, rows := range regexp.MustCompile(`actual rows=(\d+)`).FindAllStringSubmatch(plan, -1) {
			require.LessOrEqual(t, len(rows[1]), len("100"), plan)
		}
		require.Regexp(t, `actual rows=100(\.00)? `, plan)
	}
}

func positionsFrom(first, n int64) (list []int64) {
	for i := range n {
		list = append(list, first+i)
	}
	return list
}

func (w *world) age(t *testing.T, by string, upTo int) {
	t.Helper()
	_, err := w.db.Exec(t.Context(), `update bus_messages set at = now() - $1::interval where position <= $2`, by, upTo)
	require.NoError(t, err)
}

func TestMessagesAreDeletedOnceEveryGroupHasPassed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, workspace := w.open(t), newID()
	left := func() int { return len(rowsOf[int64](t, w.db, `select position from bus_messages`)) }
	w.append(t, workspace, 10)
	w.relay(t, b, workspace)
	_, err := w.db.Exec(t.Context(), `insert into bus_groups values ('svc_events', 'quick', 8), ('svc_events', 'slow', 3)`)
	require.NoError(t, err)

	require.NoError(t, b.deleteOld(t.Context()))
	require.Equal(t, 10, left(), "a live consumer may be on its way to them")
	w.age(t, "2 minutes", 9)
	require.NoError(t, b.deleteOld(t.Context()))
	require.Equal(t, 7, left(), "one group has not passed 4")
	require.NotContains(t, w.notes.String(), "level=WARN")

	w.age(t, "8 days", 6)
	require.NoError(t, b.deleteOld(t.Context()))
	require.Equal(t, 4, left(), "a group that is away for a week does not keep them for ever")
	require.Contains(t, w.notes.String(), "messages=3")

	_, err = w.db.Exec(t.Context(), `delete from bus_groups`)
	require.NoError(t, err)
	require.NoError(t, b.deleteOld(t.Context()))
	require.Equal(t, 1, left(), "without a group nobody needs them")
	require.Equal(t, []int64{10}, rowsOf[int64](t, w.db, `select position from bus_messages`))
}

func TestParkedMessagesStayForAMonth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.open(t)
	_, err := b.publish(t.Context(), Parked, messages(3, "p")...)
	require.NoError(t, err)
	w.age(t, "29 days", 3)
	w.age(t, "31 days", 1)
	require.NoError(t, b.deleteOld(t.Context()))
	require.Equal(t, []int64{2, 3}, rowsOf[int64](t, w.db, `select position from bus_messages order by position`))
}

// A consumer continues after its connections to the database were cut.
func TestConsumerReconnects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, workspace := w.open(t), newID()
	config := w.db.Config()
	config.ConnConfig.RuntimeParams["application_name"] = "consumer"
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	taken := make(chan string, 100)
	consume(t, &Bus{transport: &postgres{db: db, log: w.cfg.Log, logger: quietLogger(w.cfg.Log)}, log: w.cfg.Log}, Consumer{
		Name: "c", Handle: func(m *message.Message) error { taken <- m.UUID; return nil },
	})
	seen := map[string]bool{}
	for range 3 {
		want := w.append(t, workspace, 2)
		w.relay(t, b, workspace)
		for _, id := range want {
			requireNext(t, taken, seen, id)
		}
		cut := rowsOf[bool](t, w.db,
			`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'consumer' and datname = current_database()`)
		require.NotEmpty(t, cut)
	}
}

// A live consumer does not get what it knows, also if other messages come in between. Its queries have
// deadlines.
func TestLiveConsumerSkipsKnownEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, known, other := w.open(t), newID(), newID()
	knows := func(workspace events.ID, seq int64) bool { return workspace == known && seq <= 3 }
	got := make(chan string, 100)
	tries := 0
	config := w.db.Config()
	pgtest.RequireDeadlines(t, config)
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	opening, opened := context.WithTimeout(t.Context(), limit)
	defer opened()
	s, err := (&postgres{db: db, log: w.cfg.Log, logger: quietLogger(w.cfg.Log)}).subscribe(opening, Topic, "", knows)
	require.NoError(t, err)
	messages, err := s.Subscribe(t.Context(), Topic)
	require.NoError(t, err)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m := range messages {
			if tries++; tries == 1 {
				m.Nack() // it is redelivered
				continue
			}
			got <- m.UUID
			m.Ack()
		}
	})
	w.append(t, known, 3)
	want := w.append(t, known, 2)
	for _, workspace := range []events.ID{known, other} {
		if workspace == other {
			want = append(want, w.append(t, other, 2)...)
		}
		w.relay(t, b, workspace)
	}
	for _, id := range want {
		require.Equal(t, id, within(t, got))
	}
	require.NoError(t, s.Close())
	reading.Wait()
	require.Empty(t, got)
}
