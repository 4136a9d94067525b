package bus

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
)

// settings is a transport that notes synchronous_commit before and after it has published.
type settings struct {
	transport
	noted *[]string
}

func (s settings) relay(ctx context.Context, tx pgx.Tx, list []store.Position, limit int, most time.Duration) (
	ends []store.Position, more []events.ID, err error) {
	note := func() {
		var is string
		if err := tx.QueryRow(ctx, `show synchronous_commit`).Scan(&is); err != nil {
			is = err.Error()
		}
		*s.noted = append(*s.noted, is)
	}
	note()
	defer note()
	return s.transport.relay(ctx, tx, list, limit, most)
}

// What a live consumer has read stays, also if the server crashes: positions are not used again.
func TestPublishedMessagesAreDurable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.db.Config()
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "remote_write"
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	b, workspace := w.open(t), newID()
	w.append(t, workspace, 1)
	var noted []string
	_, err = NewRelay(db, always, w.cfg.Log).relayPage(t.Context(), &Bus{transport: settings{b.transport, &noted}, log: b.log},
		[]events.ID{workspace})
	require.NoError(t, err)
	require.Equal(t, []string{"off", "remote_write"}, noted, "the server's setting")
	require.EqualValues(t, 1, w.position(t, workspace))
}

// setBack makes the bus as if nothing had been relayed after the first messages and events.
func (w *world) setBack(t *testing.T, messages int64, relayed map[events.ID]int64) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), w.db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`delete from bus_messages where position > $1`, messages)
		b.Queue(`update bus_topics set head = $1, tail = least(tail, $1)`, messages)
		b.Queue(`delete from bus_topics where head = 0`)
		b.Queue(`update checkpoints set seq = 0 where view = $1`, FollowerName)
		for workspace, seq := range relayed {
			b.Queue(`update checkpoints set seq = $3 where workspace_id = $1 and view = $2`, workspace, FollowerName, seq)
		}
		return tx.SendBatch(t.Context(), b).Close()
	}))
}

// A replica without the newest messages takes over, or a backup is restored. A live consumer in a process
// that goes on gets every event that it did not have, whether the topic is shorter than its position, as long,
// or longer.
func TestLiveConsumerMissesNothingAfterTopicWasSetBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stay int64 // messages that are not lost, of four
		news int   // published again, before those that were lost
		lost bool  // whether those are published again too
	}{
		"shorter":            {1, 1, false},
		"as long":            {1, 3, false},
		"longer":             {1, 1, true},
		"longer by far":      {2, 7, true},
		"none stays":         {0, 1, false},
		"none stays, longer": {0, 1, true},
		"only the last is":   {3, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b, one, other := w.open(t), newID(), newID()
			got := listen(t, b, Topic, "")
			for range 4 {
				w.append(t, one, 1)
				w.relay(t, b, one)
			}
			take(t, got, 4)
			w.setBack(t, c.stay, map[events.ID]int64{one: c.stay})
			news := w.append(t, other, c.news)
			w.relay(t, b, other)
			if c.lost {
				w.relay(t, b, one)
			}
			for len(news) > 0 {
				id := take(t, got, 1)[0]
				news = slices.DeleteFunc(news, func(missing string) bool { return missing == id })
			}
			require.Equal(t, 1, strings.Count(w.notes.String(), "the topic was set back"), w.notes)
		})
	}
}

// deleteUpTo deletes messages as deleteOld does.
func (w *world) deleteUpTo(t *testing.T, position int64) {
	t.Helper()
	_, err := w.db.Exec(t.Context(), `
		with gone as (delete from bus_messages where position <= $1) update bus_topics set tail = $1`, position)
	require.NoError(t, err)
}

// The messages that a live consumer has passed are deleted after a minute: that is not setting back. It also
// notices that it is set back if it has begun after such a message.
func TestLiveConsumerBehindDeletedMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, one, other := w.open(t), newID(), newID()
	got := listen(t, b, Topic, "")
	w.append(t, one, 3)
	w.relay(t, b, one)
	take(t, got, 3)
	w.deleteUpTo(t, 3)
	late := listen(t, b, Topic, "")
	want := w.append(t, one, 1)
	w.relay(t, b, one)
	require.Equal(t, want, take(t, got, 1))
	require.Equal(t, want, take(t, late, 1))
	w.deleteUpTo(t, 4)
	last := listen(t, b, Topic, "")
	require.NotContains(t, w.notes.String(), "set back")

	w.setBack(t, 2, map[events.ID]int64{one: 2})
	news := w.append(t, other, 3)
	w.relay(t, b, other)
	require.Equal(t, news, take(t, last, 3))
	require.Equal(t, news, take(t, got, 3))
}
