package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/natsserver"
)

func TestRelayPublishesInOrder(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		got := listen(t, b, Topic, "readers")
		want := w.append(t, workspace, 2*pageSize+7)
		w.relay(t, b, workspace)
		want = append(want, w.append(t, workspace, 1)...)
		w.relay(t, b, workspace)
		for i, id := range want {
			m := within(t, got)
			require.Equal(t, id, m.UUID, "the message's id is the event's")
			in, seq, err := PositionOf(m)
			require.NoError(t, err)
			require.Equal(t, workspace, in)
			require.EqualValues(t, i+1, seq)
			require.Equal(t, "run.facts_recorded", m.Metadata.Get("kind"))
		}
		require.EqualValues(t, len(want), w.position(t, workspace))
	})
}

func TestMessageHasStoredFormOfEvent(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		w.append(t, workspace, 1)
		w.relay(t, b, workspace)
		m := within(t, listen(t, b, Topic, "readers"))
		stored := rowsOf[string](t, w.db, `select data::text from events where workspace_id = $1`, workspace)
		require.Equal(t, stored, []string{string(m.Payload)})
		schema, err := strconv.Atoi(m.Metadata.Get("schema"))
		require.NoError(t, err)
		e, err := events.Decode(m.Metadata.Get("kind"), schema, m.Payload)
		require.NoError(t, err)
		require.Equal(t, events.RunFactsRecorded{Facts: []string{"0"}}, e)
	})
}

// An event that a newer build wrote is published as it is stored.
func TestRelayPublishesEventsOfNewerBuilds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, workspace := w.open(t), newID()
	w.append(t, workspace, 1)
	_, err := w.db.Exec(t.Context(), `update events set kind = 'moon.landed', schema = 7`)
	require.NoError(t, err)
	w.relay(t, b, workspace)
	m := within(t, listen(t, b, Topic, "readers"))
	require.Equal(t, "moon.landed", m.Metadata.Get("kind"))
	require.Equal(t, "7", m.Metadata.Get("schema"))
}

// flaky is a transport that fails after it has published.
type flaky struct {
	transport
	after func() error
}

func (f flaky) relay(ctx context.Context, tx pgx.Tx, list []store.Position, limit int, most time.Duration) (
	ends []store.Position, more []events.ID, err error) {
	if ends, more, err = f.transport.relay(ctx, tx, list, limit, most); err != nil {
		return ends, more, err
	}
	if err := f.after(); err != nil {
		return nil, nil, err
	}
	return ends, more, nil
}

// A relay that dies after publishing and before moving its checkpoint publishes again. NATS
// drops the duplicates by their id; in PostgreSQL the messages were rolled back with the
// transaction.
func TestRelayPublishesAgainAfterCrash(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		b, workspace := w.open(t), newID()
		want := w.append(t, workspace, 5)
		ctx, die := context.WithCancel(t.Context())
		dying := &Bus{transport: flaky{b.transport, func() error { die(); return nil }}, log: b.log}
		_, err := NewRelay(w.db, always, w.cfg.Log).relayPage(ctx, dying, []events.ID{workspace})
		require.Error(t, err)
		require.Zero(t, w.position(t, workspace))

		w.relay(t, b, workspace)
		end := w.append(t, workspace, 1)
		w.relay(t, b, workspace)
		require.Equal(t, append(want, end...), take(t, listen(t, b, Topic, "readers"), 6))
	})
}

func TestFailedPublishKeepsCheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, workspace := w.open(t), newID()
	w.append(t, workspace, 3)
	away := errors.New("the bus is away")
	failing := &Bus{transport: flaky{b.transport, func() error { return away }}, log: b.log}
	_, err := NewRelay(w.db, always, w.cfg.Log).relayPage(t.Context(), failing, []events.ID{workspace})
	require.ErrorIs(t, err, away)
	require.Zero(t, w.position(t, workspace))
	require.Empty(t, rowsOf[int64](t, w.db, `select position from bus_messages`))
}

// hookedPublisher is a publisher that calls a hook before each message.
type hookedPublisher struct {
	message.Publisher
	before func() error
}

func (h hookedPublisher) Publish(topic string, list ...*message.Message) error {
	if err := h.before(); err != nil {
		return err
	}
	return h.Publisher.Publish(topic, list...)
}

// hookBeforeEach installs a hook that is called before each message that a bus on NATS publishes.
func (b *Bus) hookBeforeEach(do func() error) {
	publishers := b.transport.(*jetStream).publishers
	publishers[Topic] = hookedPublisher{publishers[Topic], do}
}

// A bus that is too slow for a page gets it in parts, and nothing twice.
func TestSlowBusGetsPageInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, natsserver.Start(t, natsserver.Config{}).URL)
	b, sent := w.open(t), 0
	b.hookBeforeEach(func() error {
		sent++
		<-time.After(10 * time.Millisecond)
		return nil
	})
	r := NewRelay(w.db, always, w.cfg.Log)
	r.publishTimeout = 100 * time.Millisecond
	one, other := newID(), newID()
	want := map[events.ID][]string{one: w.append(t, one, 25), other: w.append(t, other, 25)}
	pages, stalls := 0, 0
	for more := []events.ID{one, other}; len(more) > 0; {
		before := sent
		rest, err := r.relayPage(t.Context(), b, more)
		if errors.Is(err, context.DeadlineExceeded) && sent == before && stalls < 10 { // the machine is slower than the bus
			stalls++
			continue
		}
		require.NoError(t, err)
		require.EqualValues(t, sent, w.position(t, one)+w.position(t, other))
		more = rest
		pages++
	}
	require.GreaterOrEqual(t, pages, 5, "ten messages in a page, or fewer")
	require.Equal(t, 50, sent)
	got := listen(t, b, Topic, "readers")
	for range 50 {
		m := within(t, got)
		workspace, _, err := PositionOf(m)
		require.NoError(t, err)
		require.Equal(t, want[workspace][0], m.UUID)
		want[workspace] = want[workspace][1:]
	}
}

// What was published before the bus failed is not published again.
func TestCheckpointMovesPastPublishedMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, natsserver.Start(t, natsserver.Config{}).URL)
	b, workspace, sent := w.open(t), newID(), 0
	want := w.append(t, workspace, 5)
	away := errors.New("the bus is away")
	b.hookBeforeEach(func() error {
		if sent++; sent == 4 {
			return away
		}
		return nil
	})
	_, err := NewRelay(w.db, always, w.cfg.Log).relayPage(t.Context(), b, []events.ID{workspace})
	require.ErrorIs(t, err, away)
	require.EqualValues(t, 3, w.position(t, workspace))
	w.relay(t, b, workspace)
	require.Equal(t, 6, sent, "the fourth twice")
	require.Equal(t, want, take(t, listen(t, b, Topic, "readers"), 5))
}

// Several processes relay the logs of many workspaces while they grow. Each event is
// published once, and those of a workspace in order.
func TestRelaysShareTheWork(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		const relays, workspaces, commits = 3, 8, 30
		got := listen(t, w.open(t), Topic, "readers")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var running sync.WaitGroup
		var all []*Relay
		for range relays {
			r, b := NewRelay(w.connect(t), always, w.cfg.Log), w.open(t)
			all = append(all, r)
			running.Go(func() { r.run(ctx, b) })
		}
		var writing sync.WaitGroup
		for range workspaces {
			workspace := newID()
			writing.Go(func() {
				for i := range commits {
					w.append(t, workspace, 1+i%3)
					for _, r := range all {
						r.Moved(workspace, 0)
					}
				}
			})
		}
		writing.Wait()
		next := map[events.ID]int64{}
		for range workspaces * commits * 2 {
			workspace, seq, err := PositionOf(within(t, got))
			require.NoError(t, err)
			require.Equal(t, next[workspace]+1, seq)
			next[workspace] = seq
		}
		stop()
		running.Wait()
		require.Empty(t, got)
		require.NotContains(t, w.notes.String(), "level=ERROR")
	})
}

// Events from a time without a relay, of which no notification came, are found.
func TestRelayFindsEventsWithoutNotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, workspace := w.open(t), newID()
	got := listen(t, b, Topic, "readers")
	before := w.append(t, workspace, 1)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { NewRelay(w.db, always, w.cfg.Log).run(ctx, b) })
	require.Equal(t, before, take(t, got, 1))
	meanwhile := w.append(t, workspace, 1)
	require.Equal(t, meanwhile, take(t, got, 1))
	stop()
	running.Wait()
}

// A log with a missing event is not relayed; the others are.
func TestMissingEventBlocksOnlyItsLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, broken, whole := w.open(t), newID(), newID()
	w.append(t, broken, 3)
	want := w.append(t, whole, 3)
	_, err := w.db.Exec(t.Context(), `delete from events where workspace_id = $1 and seq = 2`, broken)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	r := NewRelay(w.db, always, w.cfg.Log)
	running.Go(func() { r.run(ctx, b) })
	require.Equal(t, want, take(t, listen(t, b, Topic, "readers"), 3))
	require.Eventually(t, func() bool { return strings.Contains(w.notes.String(), "event 2 is missing") }, limit, time.Millisecond)
	require.Equal(t, 1, r.Stuck())
	stop()
	running.Wait()
	require.Zero(t, w.position(t, broken))
}

func TestPositionOfRefusesOtherMessages(t *testing.T) {
	for _, metadata := range []message.Metadata{
		{}, {"workspace": "acme", "seq": "1"}, {"workspace": newID().String()},
		{"workspace": newID().String(), "seq": "0"}, {"workspace": newID().String(), "seq": "one"},
	} {
		m := message.NewMessage("id", nil)
		m.Metadata = metadata
		_, _, err := PositionOf(m)
		require.ErrorContains(t, err, "message id", fmt.Sprint(metadata))
	}
}
