package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
)

const (
	liveBatch   = 1000             // positions read together, with the last one that was passed
	liveTimeout = 10 * time.Second // limit for a query
)

const (
	positionsSQL = `
		with behind as (select tail, greatest(tail, $2::bigint) as position from bus_topics where topic = $1)
		select behind.tail, coalesce(m.position, 0), m.at, workspace_id, seq from behind left join bus_messages m on m.topic = $1
			and m.position >= (select position from behind) and m.position < (select position from behind) + $3
		order by m.position`
	messagesSQL = `
		select r.* from unnest((select $2::bigint[])) as k (position)
		cross join lateral (` + selectMessages + `where m.topic = $1 and m.position = k.position offset 0) r order by position`
)

// live is a subscriber without a group: it gets every message from a place on. It first
// reads the positions of their events, and then only the messages of events that are not
// known.
//
// The topic may lose its place: after a failover to a replica without the newest messages, or
// a restored backup, positions are used again. It then starts at the oldest message.
type live struct {
	db      *pgxpool.Pool
	log     *slog.Logger
	passed  place // the last one that it has passed
	knows   Knows // may be nil
	backoff func(none bool, err error) time.Duration

	subscription
}

// A place is that of a message in its topic. If its position is used again, then later.
type place struct {
	position int64
	at       *time.Time // when the message was published; nil if it was deleted
}

func (p place) equal(other place) bool {
	return p.position == other.position && p.at != nil && other.at != nil && p.at.Equal(*other.at)
}

// Subscribe delivers messages until ctx ends or the subscriber is closed.
func (l *live) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return l.read(ctx, func(ctx context.Context, to chan<- *message.Message) {
		for ctx.Err() == nil {
			n, err := l.next(ctx, topic, to)
			select {
			case <-ctx.Done():
			case <-time.After(l.backoff(n == 0, err)):
			}
		}
	}), nil
}

// next delivers the next messages, and returns how many it has passed.
func (l *live) next(ctx context.Context, topic string, to chan<- *message.Message) (n int, err error) {
	wanted, end, n, err := l.scanPositions(ctx, topic)
	if errors.Is(err, errSetBack) {
		l.log.WarnContext(ctx, "the topic was set back: messages are read again", "topic", topic, "position", l.passed.position)
		l.passed = place{}
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	if len(wanted) > 0 {
		if err := l.deliverAll(ctx, topic, wanted, to); err != nil {
			return 0, err
		}
	}
	l.passed = end
	return n, nil
}

var errSetBack = errors.New("the topic was set back")

// scanPositions reads the next n positions. It returns those whose messages are wanted, and the last
// one. The error is errSetBack if the topic no longer has the message that was passed last.
func (l *live) scanPositions(ctx context.Context, topic string) (wanted []place, end place, n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	rows, _ := l.db.Query(ctx, positionsSQL, topic, l.passed.position, liveBatch)
	var tail int64
	var p place
	var workspace *events.ID // nil if the message is not of an event
	var seq *int64
	end = l.passed
	found := false // the message that was passed last
	_, err = pgx.ForEachRow(rows, []any{&tail, &p.position, &p.at, &workspace, &seq}, func() error {
		switch {
		case p.position == 0: // there is no message
			return nil
		case p.position == l.passed.position:
			found = p.equal(l.passed)
			return nil
		case l.knows == nil || workspace == nil || !l.knows(*workspace, *seq):
			wanted = append(wanted, p)
		}
		end, n = p, n+1
		return nil
	})
	if err != nil {
		return nil, end, 0, fmt.Errorf("look for messages: %w", err)
	}
	if !found && tail < l.passed.position {
		return nil, end, 0, errSetBack
	}
	return wanted, end, n, nil
}

// deliverAll delivers messages, each after the previous one was processed. It moves past each
// that was.
func (l *live) deliverAll(ctx context.Context, topic string, wanted []place, to chan<- *message.Message) error {
	list, err := l.readMessages(ctx, topic, wanted)
	if err != nil {
		return err
	}
	for _, r := range list {
		m := message.NewMessage(r.id, r.payload)
		if err := json.Unmarshal(r.metadata, &m.Metadata); err != nil {
			return fmt.Errorf("decode metadata of message %s: %w", r.id, err)
		}
		if err := deliver(ctx, m, to); err != nil {
			return err
		}
		l.passed = r.place
	}
	return nil
}

// A messageRow is a message as stored.
type messageRow struct {
	place
	id                string
	metadata, payload []byte
}

// readMessages reads the messages at wanted that were not deleted meanwhile.
func (l *live) readMessages(ctx context.Context, topic string, wanted []place) ([]messageRow, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	positions, at := make([]int64, len(wanted)), map[int64]*time.Time{}
	for i, p := range wanted {
		positions[i], at[p.position] = p.position, p.at
	}
	rows, _ := l.db.Query(ctx, messagesSQL, topic, positions)
	list, err := pgx.CollectRows(rows, func(found pgx.CollectableRow) (r messageRow, err error) {
		err = found.Scan(&r.position, &r.id, &r.metadata, &r.payload)
		r.at = at[r.position]
		return r, err
	})
	return list, fault.Wrap(err, "read messages")
}

// deliver returns when a message was processed. It sends a message that was refused again.
func deliver(ctx context.Context, m *message.Message, to chan<- *message.Message) error {
	for {
		within, cancel := context.WithCancel(ctx)
		m.SetContext(within)
		select {
		case to <- m:
		case <-ctx.Done():
			cancel()
			return ctx.Err()
		}
		select {
		case <-m.Acked():
			cancel()
			return nil
		case <-m.Nacked():
			cancel()
			m = m.Copy()
		case <-ctx.Done():
			cancel()
			return ctx.Err()
		}
	}
}
