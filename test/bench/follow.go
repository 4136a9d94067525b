package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	sqlbus "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/projections"
	"svc/projections/fold"
)

// follow compares a view that is half a million events behind with Watermill's own
// subscriber of as many messages, which it does not process. The view is measured until
// it has caught up. The subscriber would take most of an hour, as it scans all remaining
// messages for each hundred: it is measured for one turn.
func follow(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	n := scaled(500_000)
	workspaces, err := fillLogs(ctx, db, max(1, n/eventsPerLog), min(n, eventsPerLog))
	if err != nil {
		return result{}, err
	}
	if err := publishAll(ctx, db, workspaces); err != nil {
		return result{}, fmt.Errorf("publish: %w", err)
	}
	groups := 0
	return compare(ctx,
		func() (work, error) { return measureFollower(ctx, db, "runs", n) },
		func() (work, error) {
			groups++
			return measureSubscriber(ctx, db, fmt.Sprint("group", groups))
		})
}

// measureFollower empties a view and follows until it has caught up with n events.
func measureFollower(ctx context.Context, db *pgxpool.Pool, view string, n int) (work, error) {
	for _, sql := range []string{`truncate ` + view, `delete from checkpoints where view = '` + view + `'`} {
		if _, err := db.Exec(ctx, sql); err != nil {
			return work{}, err
		}
	}
	f := fold.NewFollower(db, projections.Followed(), func(name string) bool { return name == view }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	from := time.Now()
	running.Go(func() { f.Run(ctx) })
	for ctx.Err() == nil {
		var at int
		if err := db.QueryRow(ctx, `select coalesce(sum(seq), 0) from checkpoints where view = $1`, view).Scan(&at); err != nil {
			return work{}, err
		}
		if at >= n {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return work{n, time.Since(from)}, ctx.Err()
}

const topic = "events"

// publishAll publishes a message for each event, 200 in a transaction.
func publishAll(ctx context.Context, db *pgxpool.Pool, workspaces []events.ID) error {
	subscriber, err := newSubscriber(db, "")
	if err != nil {
		return err
	}
	if err := subscriber.SubscribeInitialize(topic); err != nil {
		return err
	}
	if err := subscriber.Close(); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, db.Config().ConnString())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `set synchronous_commit = off`); err != nil {
		return err
	}
	for _, workspace := range workspaces {
		for seq := 0; ; seq += 200 {
			done, err := conn.Exec(ctx, `
				insert into watermill_events (uuid, payload, metadata, transaction_id)
				select id, data, json_build_object('workspace', workspace_id, 'seq', seq::text, 'kind', kind, 'stream', stream), pg_current_xact_id()
				from events where workspace_id = $1 and seq > $2 and seq <= $2 + 200 order by seq`, workspace, seq)
			if err != nil {
				return err
			}
			if done.RowsAffected() == 0 {
				break
			}
		}
	}
	_, err = conn.Exec(ctx, `vacuum analyze watermill_events`)
	return err
}

func newSubscriber(db *pgxpool.Pool, group string) (*sqlbus.Subscriber, error) {
	return sqlbus.NewSubscriber(sqlbus.BeginnerFromPgx(db), sqlbus.SubscriberConfig{
		ConsumerGroup: group, SchemaAdapter: sqlbus.DefaultPostgreSQLSchema{}, OffsetsAdapter: sqlbus.DefaultPostgreSQLOffsetsAdapter{},
	}, nil)
}

// measureSubscriber receives messages for one turn, as a new consumer group.
func measureSubscriber(ctx context.Context, db *pgxpool.Pool, group string) (work, error) {
	subscriber, err := newSubscriber(db, group)
	if err != nil {
		return work{}, err
	}
	from := time.Now()
	messages, err := subscriber.Subscribe(ctx, topic)
	if err != nil {
		return work{}, err
	}
	n := 0
	over := time.After(*turn)
	for going := true; going; {
		select {
		case m := <-messages:
			m.Ack()
			n++
		case <-over:
			going = false
		case <-ctx.Done():
			going = false
		}
	}
	took := time.Since(from)
	if err := subscriber.Close(); err != nil {
		return work{}, err
	}
	if n == 0 {
		return work{}, cmp.Or(context.Cause(ctx), fmt.Errorf("the subscriber had no message in %s", took))
	}
	return work{n, took}, ctx.Err()
}
