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

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
	"svc/fault"
)

const (
	passedRetention = time.Minute // how long a message is kept after every group has passed it
	sweepSize       = 10_000      // messages deleted in one statement

	positionsPage = 4000 // events whose positions are published together
)

// postgres is the bus in the database that holds the log.
type postgres struct {
	db     *pgxpool.Pool
	log    *slog.Logger
	logger watermill.LoggerAdapter
}

func (p *postgres) publish(ctx context.Context, topic string, list ...*message.Message) (n int, err error) {
	publisher, err := sqlbus.NewPublisher(sqlbus.BeginnerFromPgx(p.db), sqlbus.PublisherConfig{SchemaAdapter: schemaAdapter{}}, p.logger)
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

// relay writes in the checkpoints' transaction, so messages exist if and only if the
// checkpoints have moved. A message is only the position of its event, so no event is read.
func (p *postgres) relay(ctx context.Context, tx pgx.Tx, list []store.Position, limit int, _ time.Duration) (
	ends []store.Position, more []events.ID, err error) {
	ends, err = store.Page{Logs: list, Limit: limit}.Ends(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	if err := follow.CheckComplete(ctx, tx, list, ends); err != nil || len(ends) == 0 {
		return nil, nil, err
	}
	from := map[events.ID]int64{}
	for _, at := range list {
		from[at.Workspace] = at.Seq
	}
	behind := make([]store.Position, len(ends))
	for i, end := range ends {
		behind[i] = store.Position{Workspace: end.Workspace, Seq: from[end.Workspace]}
		if end.Seq-behind[i].Seq == int64(limit) {
			more = append(more, end.Workspace)
		}
	}
	if err := insertPositions(ctx, tx, behind, ends); err != nil {
		return nil, nil, fmt.Errorf("publish: %w", err)
	}
	return ends, more, nil
}

// insertPositions inserts a message for each event from the positions behind up to ends, in the
// order of each log. It locks the topic's row, so only one transaction at a time assigns
// positions.
//
// Unlike other commits with checkpoints, that of tx waits for the disk: live consumers keep the
// position of what they have read in memory, and commit nothing that would flush it. If the
// server lost the commit in a crash, they would skip what then gets the same positions.
func insertPositions(ctx context.Context, tx pgx.Tx, behind, ends []store.Position) error {
	workspaces, from := store.Columns(behind)
	_, to := store.Columns(ends)
	before, n := make([]int64, len(ends)), int64(0) // how many messages precede those of each log
	for i := range ends {
		before[i], n = n, n+to[i]-from[i]
	}
	b := &pgx.Batch{}
	b.Queue(`set local synchronous_commit to default`)
	b.Queue(`
		with counted as (
			insert into bus_topics as t (topic, head, tail) values ($1, $2, 0)
			on conflict (topic) do update set head = t.head + excluded.head
			returning head - $2 as before
		)
		insert into bus_messages (topic, position, workspace_id, seq)
		select $1, c.before + s.before + seq - s.behind, workspace_id, seq
		from counted c cross join unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[]) as s (workspace_id, behind, last, before)
		cross join lateral generate_series(behind + 1, last) as seq`, Topic, n, workspaces, from, to, before)
	return tx.SendBatch(ctx, b).Close()
}

func (p *postgres) page() int { return positionsPage }

func (p *postgres) subscribe(ctx context.Context, topic, group string, knows Knows) (message.Subscriber, error) {
	rest := &pollBackoff{log: p.log, topic: topic, group: group}
	if group != "" {
		return sqlbus.NewSubscriber(sqlbus.BeginnerFromPgx(p.db), sqlbus.SubscriberConfig{
			ConsumerGroup: group, SchemaAdapter: schemaAdapter{}, OffsetsAdapter: offsets{group}, BackoffManager: rest,
		}, p.logger)
	}
	l := &live{
		db: p.db, log: p.log, knows: knows, subscription: newSubscription(),
		backoff: func(none bool, err error) time.Duration { return rest.HandleError(p.logger, none, err) },
	}
	rows, _ := p.db.Query(ctx, `
		select head, at from bus_topics t left join bus_messages m on m.topic = $1 and m.position = head where t.topic = $1`, topic)
	_, err := pgx.ForEachRow(rows, []any{&l.passed.position, &l.passed.at}, func() error { return nil })
	return l, fault.Wrap(err, "read position of topic %s", topic)
}

func (p *postgres) close() error { return nil } // the pool belongs to the caller

// deleteOld deletes messages that every group has passed and, with a warning, those that are too
// old for a group that has not.
func (p *postgres) deleteOld(ctx context.Context) error {
	if err := p.sweep(ctx, Topic, passedRetention, retention); err != nil {
		return err
	}
	return p.sweep(ctx, Parked, parkedRetention, parkedRetention)
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
			select count(*), count(*) filter (where lost) from gone`, topic, passed, unpassed, sweepSize).Scan(&n, &lost)
		if err != nil {
			return fmt.Errorf("delete old messages of %s: %w", topic, err)
		}
		if lost > 0 {
			p.log.WarnContext(ctx, "messages were removed before a group had read them", "topic", topic, "messages", lost)
		}
		if n < sweepSize {
			return nil
		}
	}
}
