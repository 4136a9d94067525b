package bus

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	sqlbus "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	rests = time.Minute // how long a message stays that every group has passed
	broom = 10_000      // messages that are removed at once
)

// postgres is the bus in the database that has the log.
type postgres struct {
	db     *pgxpool.Pool
	log    *slog.Logger
	logger watermill.LoggerAdapter
}

// publish writes in the checkpoint's transaction, where there is one: then the
// messages are there if and only if the checkpoint has moved, and each is an
// event of the log.
func (p *postgres) publish(ctx context.Context, tx pgx.Tx, topic string, list ...*message.Message) (n int, err error) {
	var db sqlbus.ContextExecutor = sqlbus.BeginnerFromPgx(p.db)
	var schema sqlbus.SchemaAdapter = table{}
	if tx != nil {
		db, schema = sqlbus.TxFromPgx(tx), positions{}
	}
	publisher, err := sqlbus.NewPublisher(db, sqlbus.PublisherConfig{SchemaAdapter: schema}, p.logger)
	if err != nil {
		return 0, err
	}
	for _, m := range list {
		m.SetContext(ctx)
	}
	if err := publisher.Publish(topic, list...); err != nil {
		return 0, err
	}
	return len(list), nil
}

func (p *postgres) subscribe(ctx context.Context, topic, group string, knows Knows) (message.Subscriber, error) {
	rest := &pauses{log: p.log, topic: topic, group: group}
	if group != "" {
		return sqlbus.NewSubscriber(sqlbus.BeginnerFromPgx(p.db), sqlbus.SubscriberConfig{
			ConsumerGroup: group, SchemaAdapter: table{}, OffsetsAdapter: place{group}, BackoffManager: rest,
		}, p.logger)
	}
	l := &live{
		db: p.db, knows: knows, closed: make(chan struct{}),
		rest: func(none bool, err error) time.Duration { return rest.HandleError(p.logger, none, err) },
	}
	err := p.db.QueryRow(ctx, `select coalesce((select head from bus_topics where topic = $1), 0)`, topic).Scan(&l.at)
	if err != nil {
		return nil, fmt.Errorf("position of topic %s: %w", topic, err)
	}
	return l, nil
}

func (p *postgres) close() error { return nil } // the pool is its owner's

// tidy removes messages that every group has passed and, with a warning, those
// that are too old for a group that has not.
func (p *postgres) tidy(ctx context.Context) error {
	if err := p.sweep(ctx, Topic, rests, kept); err != nil {
		return err
	}
	return p.sweep(ctx, Parked, keptParked, keptParked)
}

func (p *postgres) sweep(ctx context.Context, topic string, passed, unpassed time.Duration) error {
	for {
		var n, lost int
		err := p.db.QueryRow(ctx, `
			with passed as (
				select coalesce(min(position), 9223372036854775807) as all from bus_groups where topic = $1
			), stays as ( -- the first of the oldest that has to
				select min(position) as position from bus_messages cross join bus_topics t cross join passed
				where bus_messages.topic = $1 and t.topic = $1 and position > tail and position <= tail + $4
				and not (position <= passed.all and at < now() - $2::interval or at < now() - $3::interval)
			), gone as (
				delete from bus_messages m using bus_topics t, stays s, passed p
				where m.topic = $1 and t.topic = $1 and m.position > tail and m.position <= tail + $4
				and m.position < coalesce(s.position, 9223372036854775807)
				returning m.position, m.position > p.all as lost
			), cut as (
				update bus_topics set tail = (select max(position) from gone) where topic = $1 and exists (select from gone)
			)
			select count(*), count(*) filter (where lost) from gone`, topic, passed, unpassed, broom).Scan(&n, &lost)
		if err != nil {
			return fmt.Errorf("tidy topic %s: %w", topic, err)
		}
		if lost > 0 {
			p.log.WarnContext(ctx, "messages were removed that a group has not taken in", "topic", topic, "messages", lost)
		}
		if n < broom {
			return nil
		}
	}
}
