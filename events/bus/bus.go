package bus

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
	"svc/fault"
)

const (
	// Topic is the topic of all events.
	Topic = "svc_events"
	// Parked is the topic of messages that a consumer failed to process. Their metadata has
	// the reason (reason_poisoned, handler_poisoned).
	Parked = "svc_events_parked"

	retention       = 7 * 24 * time.Hour  // how long messages are kept for groups that are away
	parkedRetention = 30 * 24 * time.Hour // how long parked messages are kept for the operator
	openLimit       = 10 * time.Second    // limit for connecting to a server
)

// A Config selects the bus and has what it needs.
type Config struct {
	URLs []string      // from SVC_BUS_URL; none: the bus is in DB
	DB   *pgxpool.Pool // the database that holds the log
	Log  *slog.Logger
}

// Check returns an error unless the addresses are nats:// or tls:// servers of one cluster, or
// there are none. The error quotes no address.
func Check(urls []string) error {
	for _, text := range urls {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "":
			return errors.New("want addresses such as nats://host:4222")
		case u.Scheme != "nats" && u.Scheme != "tls":
			return errors.New("want nats:// or tls://, or nothing for the bus in PostgreSQL")
		}
	}
	return nil
}

// A Bus publishes and delivers messages until it is closed.
type Bus struct {
	transport
	log     *slog.Logger
	retries retries
}

// A transport is the part that differs between the kinds of bus.
type transport interface {
	// publish publishes messages in order and returns when they are stored. With an error,
	// it returns how many of the first ones are stored.
	publish(ctx context.Context, topic string, list ...*message.Message) (n int, err error)
	// relay publishes the events that follow positions, up to limit events of each log, and
	// stops after most. It returns the positions up to which events are stored, which may
	// be only a part if there is an error, and the logs that may have more. tx is the
	// transaction of the checkpoints: a transport that can write in it does, and so stores
	// all or nothing.
	relay(ctx context.Context, tx pgx.Tx, list []store.Position, limit int, most time.Duration) (
		ends []store.Position, more []events.ID, err error)
	// page returns how many events are relayed together.
	page() int
	// subscribe returns a subscriber to the messages of a topic, one at a time. Subscribers
	// of the same group share the messages, beginning with the oldest one that is kept. A
	// subscriber without a group gets every message from now on, but may leave out events
	// that it knows.
	subscribe(ctx context.Context, topic, group string, knows Knows) (message.Subscriber, error)
	// deleteOld deletes messages that are no longer needed.
	deleteOld(ctx context.Context) error
	close() error
}

// Open opens the bus that cfg selects. It takes at most ten seconds.
func Open(ctx context.Context, cfg Config) (*Bus, error) {
	if err := Check(cfg.URLs); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	b := &Bus{log: cfg.Log, retries: defaultRetries}
	if len(cfg.URLs) == 0 {
		b.transport = &postgres{db: cfg.DB, log: cfg.Log, logger: quietLogger(cfg.Log)}
		return b, nil
	}
	var err error
	b.transport, err = openNATS(ctx, cfg.URLs, b.retries.longestDelivery(), cfg.Log)
	return b, fault.Wrap(err, "open the bus")
}

// Close closes the bus's own connections.
func (b *Bus) Close() error { return b.close() }

// quietLogger returns a logger for Watermill that logs its notes on starting and stopping at
// debug level.
func quietLogger(log *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(log, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})
}
