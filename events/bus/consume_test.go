package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/test/address"
	"svc/test/natsserver"
)

func TestFailedMessageIsRetried(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		want := w.append(t, workspace, 3)
		w.relay(t, b, workspace)
		taken, failed := make(chan string, 100), map[string]bool{}
		consume(t, b, Consumer{Name: "c", Handle: func(m *message.Message) error {
			if m.UUID == want[1] && !failed[m.UUID] {
				failed[m.UUID] = true
				return errors.New("not now")
			}
			taken <- m.UUID
			return nil
		}})
		for _, id := range want {
			require.Equal(t, id, within(t, taken))
		}
		require.NotContains(t, w.notes.String(), "parked")
	})
}

// While a consumer's database is unavailable, no message is parked and none overtakes
// another, however long it takes.
func TestOutageParksNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		want := w.append(t, workspace, 3)
		w.relay(t, b, workspace)
		taken, tries := make(chan string, 100), 0
		consume(t, b, Consumer{Name: "c", Handle: func(m *message.Message) error {
			if tries++; tries <= 4*(b.retries.max+1) {
				return fmt.Errorf("look it up: %w", &pgconn.PgError{Code: "57P03", Message: "the database system is starting up"})
			}
			taken <- m.UUID
			return nil
		}})
		for _, id := range want {
			require.Equal(t, id, within(t, taken))
		}
		require.NotContains(t, w.notes.String(), "parked")
	})
}

// Even if every try takes as long as it may, only one process has a message at a time. It
// is not parked, because what it waits for is unavailable.
func TestSlowMessageStaysWithOneProcess(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		w.append(t, workspace, 1)
		w.relay(t, b, workspace)
		var now, most atomic.Int64
		begun, ended := make(chan error, 1000), make(chan error, 1000)
		for range 2 {
			consume(t, w.open(t), Consumer{Name: "c", Handle: func(m *message.Message) error {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				begun <- m.Context().Err()
				<-m.Context().Done()
				ended <- m.Context().Err()
				return m.Context().Err()
			}})
		}
		for range 3 * (b.retries.max + 1) { // it is delivered three times
			require.NoError(t, within(t, begun), "a try has its time, whatever the one before took")
			require.ErrorIs(t, within(t, ended), context.DeadlineExceeded, "the message was not taken away")
		}
		require.EqualValues(t, 1, most.Load())
		require.NotContains(t, w.notes.String(), "parked")
	})
}

func TestLongestDeliveryIsAllTriesAndPauses(t *testing.T) {
	r := retries{4, 100 * time.Millisecond, 2 * time.Second, 3 * time.Second, 10 * time.Second}
	require.Equal(t, 5*3*time.Second+(100+300+900+2000)*time.Millisecond+10*time.Second, r.longestDelivery())
}

// A build whose tries take longer than those of the previous one makes the server wait
// longer.
func TestNATSGroupUsesAckWaitOfThisBuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, natsserver.Start(t, natsserver.Config{}).URL)
	conn, err := nats.Connect(w.cfg.URLs[0], nats.Timeout(limit))
	require.NoError(t, err)
	defer conn.Close()
	b, workspace := w.open(t), newID()
	require.NoError(t, ensureConsumer(t.Context(), conn, Topic, "c", time.Millisecond))
	want := w.append(t, workspace, 1)
	w.relay(t, b, workspace)
	require.Equal(t, want, take(t, listen(t, b, Topic, "c"), 1))
	js, err := conn.JetStream(nats.MaxWait(limit))
	require.NoError(t, err)
	info, err := js.ConsumerInfo(Topic, "c")
	require.NoError(t, err)
	require.Equal(t, b.retries.longestDelivery(), info.Config.AckWait)
}

// A message that fails in every try, or makes the consumer panic, is parked with the
// reason, and the next ones are delivered.
func TestPoisonMessageIsParked(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		parked := listen(t, b, Parked, "operators")
		want := w.append(t, workspace, 4)
		w.relay(t, b, workspace)
		taken, tries := make(chan string, 100), map[string]int{}
		stop := consume(t, b, Consumer{Name: "c", Handle: func(m *message.Message) error {
			tries[m.UUID]++
			switch m.UUID {
			case want[0]:
				return errors.New("it is poison")
			case want[2]:
				panic("it is worse")
			}
			taken <- m.UUID
			return nil
		}})
		require.Equal(t, want[1], within(t, taken))
		require.Equal(t, want[3], within(t, taken))
		for i, reason := range []string{0: "it is poison", 2: "it is worse"} {
			if reason == "" {
				continue
			}
			m := within(t, parked)
			require.Equal(t, want[i], m.UUID)
			require.Contains(t, m.Metadata.Get(middleware.ReasonForPoisonedKey), reason)
			require.Equal(t, "c", m.Metadata.Get(middleware.PoisonedHandlerKey))
			require.Equal(t, workspace.String(), m.Metadata.Get("workspace"))
		}
		require.NoError(t, stop())
		require.Equal(t, map[string]int{want[0]: 3, want[1]: 1, want[2]: 3, want[3]: 1}, tries)
		require.Contains(t, w.notes.String(), `msg="a message was parked" id=`+want[0])
	})
}

// Each of two consumers gets all messages, also those that arrived while it was away.
func TestConsumersOfOtherNamesDoNotShare(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		all := w.append(t, workspace, 2)
		w.relay(t, b, workspace)
		for _, name := range []string{"one", "other"} {
			taken := make(chan string, 100)
			c := Consumer{Name: name, Handle: func(m *message.Message) error { taken <- m.UUID; return nil }}
			stop, seen := consume(t, b, c), map[string]bool{}
			for _, id := range all {
				requireNext(t, taken, seen, id)
			}
			require.NoError(t, stop())
			meanwhile := w.append(t, workspace, 1)
			w.relay(t, b, workspace)
			consume(t, b, c)
			requireNext(t, taken, seen, meanwhile[0])
			all = append(all, meanwhile...)
		}
	})
}

// Processes of one name share: each message is processed once, in order.
func TestConsumersOfOneNameShare(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		workspace := newID()
		taken := make(chan string, 1000)
		c := Consumer{Name: "c", Handle: func(m *message.Message) error { taken <- m.UUID; return nil }}
		for range 3 {
			consume(t, w.open(t), c)
		}
		want := w.append(t, workspace, 250)
		w.relay(t, w.open(t), workspace)
		for _, id := range want {
			require.Equal(t, id, within(t, taken))
		}
		require.Empty(t, taken)
	})
}

// When one process ends, the others continue at its position.
func TestOtherConsumersContinueAfterOneEnds(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		taken := make(chan string, 1000)
		c := Consumer{Name: "c", Handle: func(m *message.Message) error { taken <- m.UUID; return nil }}
		stop := consume(t, b, c)
		var before string
		for _, id := range w.append(t, workspace, 5) {
			w.relay(t, b, workspace)
			require.Equal(t, id, within(t, taken))
			before = id
		}
		for range 2 { // the process that started first, and then the second
			next := consume(t, w.open(t), c)
			require.NoError(t, stop())
			stop = next
			want := w.append(t, workspace, 5)
			w.relay(t, b, workspace)
			again := within(t, taken)
			for again != want[0] { // its last message, whose acknowledgement came too late
				require.Equal(t, before, again)
				again = within(t, taken)
			}
			for _, id := range want[1:] {
				require.Equal(t, id, within(t, taken))
			}
			before = want[len(want)-1]
		}
	})
}

// The command's idempotency key is the message's id, so a message that is delivered twice
// has its effect once.
func TestRedeliveredEventHasNoSecondEffect(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace, elsewhere := w.open(t), newID(), newID()
		taken := make(chan bool, 100)
		consume(t, b, Consumer{Name: "c", Handle: func(m *message.Message) error {
			done, err := w.log.Append(context.WithoutCancel(m.Context()), &events.Commit{
				Workspace: elsewhere, At: epoch, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "c"}},
				Writes:  []events.Write{{Stream: newID(), Events: []events.Event{events.RunFactsRecorded{}}}},
				Command: events.Command{Key: m.UUID, Hash: []byte(m.UUID), Answer: []byte(`{}`)},
			})
			taken <- done.Replayed
			return err
		}})
		w.append(t, workspace, 3)
		w.relay(t, b, workspace)
		for range 3 {
			require.False(t, within(t, taken))
		}
		again := message.NewMessage(rowsOf[string](t, w.db, `select id::text from events where workspace_id = $1 and seq = 2`, workspace)[0],
			[]byte(`{}`))
		require.NoError(t, b.redeliver(t.Context(), again))
		require.True(t, within(t, taken), "it has been done")
		require.Len(t, rowsOf[int64](t, w.db, `select seq from events where workspace_id = $1`, elsewhere), 3)
	})
}

// redeliver publishes a message again. On NATS it uses the publisher that sets no message
// ids, because the server would drop a known one.
func (b *Bus) redeliver(ctx context.Context, m *message.Message) error {
	if n, ok := b.transport.(*jetStream); ok {
		return n.publishers[Parked].Publish(Topic, m)
	}
	_, err := b.publish(ctx, Topic, m)
	return err
}

// When the service stops, a message that is being processed is finished. One that cannot be
// finished is redelivered and not parked.
func TestStoppingParksNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		want := w.append(t, workspace, 1)
		w.relay(t, b, workspace)
		b.retries.tryTimeout = limit // only stopping may cancel it
		begun, taken := make(chan bool), make(chan string, 1)
		stop := consume(t, b, Consumer{Name: "c", Handle: func(m *message.Message) error {
			begun <- true
			<-m.Context().Done() // a slow handler
			return m.Context().Err()
		}})
		within(t, begun)
		_ = stop() // with or without an error, because it was cancelled
		consume(t, b, Consumer{Name: "c", Handle: func(m *message.Message) error { taken <- m.UUID; return nil }})
		require.Equal(t, want[0], within(t, taken))
		require.NotContains(t, w.notes.String(), "parked")
	})
}

// Closing waits for the message that is being processed, and leaves the next ones to others
// at once.
func TestClosingOnNATSWaitsForTheMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, natsserver.Start(t, natsserver.Config{}).URL)
	b, workspace := w.open(t), newID()
	want := w.append(t, workspace, 3)
	w.relay(t, b, workspace)
	s, err := b.subscribe(t.Context(), Topic, "c", nil)
	require.NoError(t, err)
	messages, err := s.Subscribe(context.WithoutCancel(t.Context()), Topic)
	require.NoError(t, err)
	first := within(t, messages)
	ended := make(chan error, 1)
	go func() { ended <- s.Close() }()
	<-s.(*jetSubscriber).closed
	require.NoError(t, first.Context().Err())
	first.Ack()
	require.NoError(t, within(t, ended))
	require.Equal(t, want[1:], take(t, listen(t, b, Topic, "c"), 2))
}

func TestLiveConsumerGetsMessagesInEveryProcess(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		w.append(t, workspace, 3)
		w.relay(t, b, workspace)
		one, other := listen(t, b, Topic, ""), listen(t, w.open(t), Topic, "")
		want := w.append(t, workspace, 150)
		w.relay(t, b, workspace)
		require.Equal(t, want, take(t, one, 150), "and nothing of before")
		require.Equal(t, want, take(t, other, 150))
	})
}

// Run works on although the bus was unavailable when it started, and logs that.
func TestRunRetriesUnavailableBus(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	place := address.Free(t)
	w := newWorld(t, "nats://hidden:word@"+place)
	workspace := newID()
	want := w.append(t, workspace, 3)

	ctx, stop := context.WithCancel(t.Context())
	taken := make(chan string, 100)
	var running sync.WaitGroup
	running.Go(func() {
		Run(ctx, w.cfg, NewRelay(w.db, always, w.cfg.Log),
			Consumer{Name: "c", Handle: func(m *message.Message) error { taken <- m.UUID; return nil }})
	})
	require.Eventually(t, func() bool { return strings.Contains(w.notes.String(), "the bus is unavailable") }, limit, time.Millisecond)
	second, seen := natsserver.Start(t, natsserver.Config{Dir: folder, Addr: place}), map[string]bool{}
	for _, id := range want {
		requireNext(t, taken, seen, id)
	}

	// The bus may also become unavailable later.
	conn, err := nats.Connect(second.URL, nats.Timeout(limit))
	require.NoError(t, err)
	js, err := conn.JetStream(nats.MaxWait(limit))
	require.NoError(t, err)
	require.Eventually(t, func() bool { // otherwise the last message would be redelivered half a minute later
		info, err := js.ConsumerInfo(Topic, "c")
		return err == nil && info.AckFloor.Stream == 3
	}, limit, 5*time.Millisecond)
	conn.Close()
	second.Stop(t)
	want = w.append(t, workspace, 3)
	natsserver.Start(t, natsserver.Config{Dir: folder, Addr: place})
	for _, id := range want {
		requireNext(t, taken, seen, id)
	}
	stop()
	running.Wait()
	require.NotContains(t, w.notes.String(), "word@", "the password")
}
