package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	liveBatch   = 1000             // positions read together
	liveTimeout = 10 * time.Second // limit for a query
)

const (
	positionsSQL = `
		with behind as (select greatest(tail, $2::bigint) as position from bus_topics where topic = $1)
		select position, workspace_id, seq from bus_messages
		where topic = $1 and position > (select position from behind) and position <= (select position from behind) + $3
		order by position`
	messagesSQL = `
		select r.* from unnest((select $2::bigint[])) as k (position)
		cross join lateral (` + selectMessages + `where m.topic = $1 and m.position = k.position offset 0) r order by position`
)

// live is a subscriber without a group: it gets every message from a position on. It first
// reads the positions of their events, and then only the messages of events that are not
// known.
type live struct {
	db       *pgxpool.Pool
	position int64 // the last position that it has passed
	knows    Knows // may be nil
	backoff  func(none bool, err error) time.Duration

	subscription
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
	if err != nil {
		return 0, err
	}
	if len(wanted) > 0 {
		if err := l.deliverAll(ctx, topic, wanted, to); err != nil {
			return 0, err
		}
	}
	l.position = end
	return n, nil
}

// scanPositions reads the next n positions. It returns those whose messages are wanted, and the last
// one.
func (l *live) scanPositions(ctx context.Context, topic string) (wanted []int64, end int64, n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	rows, _ := l.db.Query(ctx, positionsSQL, topic, l.position, liveBatch)
	var position int64
	var workspace *events.ID // nil if the message is not of an event
	var seq *int64
	end = l.position
	_, err = pgx.ForEachRow(rows, []any{&position, &workspace, &seq}, func() error {
		if l.knows == nil || workspace == nil || !l.knows(*workspace, *seq) {
			wanted = append(wanted, position)
		}
		end, n = position, n+1
		return nil
	})
	if err != nil {
		return nil, 0, 0, fmt.Errorf("look for messages: %w", err)
	}
	return wanted, end, n, nil
}

// deliverAll delivers messages, each after the previous one was processed. It moves past each
// that was.
func (l *live) deliverAll(ctx context.Context, topic string, wanted []int64, to chan<- *message.Message) error {
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
		l.position = r.position
	}
	return nil
}

// A messageRow is a message as stored.
type messageRow struct {
	position          int64
	id                string
	metadata, payload []byte
}

func (l *live) readMessages(ctx context.Context, topic string, positions []int64) ([]messageRow, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	rows, _ := l.db.Query(ctx, messagesSQL, topic, positions)
	list, err := pgx.CollectRows(rows, func(found pgx.CollectableRow) (r messageRow, err error) {
		return r, found.Scan(&r.position, &r.id, &r.metadata, &r.payload)
	})
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	return list, nil
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
