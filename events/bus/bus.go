package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

const (
	// Topic is where every event is published.
	Topic = "svc_events"
	// Parked is where a message goes that a consumer could not take in, with
	// the reason in its metadata (reason_poisoned, handler_poisoned).
	Parked = "svc_events_parked"

	kept       = 7 * 24 * time.Hour  // messages, for a group that is away
	keptParked = 30 * 24 * time.Hour // parked messages, for the operator
	openLimit  = 10 * time.Second    // to reach a server
)

// A Config says which bus there is, and what it needs.
type Config struct {
	URLs []string      // as SVC_BUS_URL has them; none: the bus is in DB
	DB   *pgxpool.Pool // has the log
	Log  *slog.Logger
}

// Check returns an error unless the addresses name one bus: nats:// or tls://
// servers of one cluster, or kafka:// brokers of one cluster, or none. It
// quotes none of them.
func Check(urls []string) error {
	_, err := kindOf(urls)
	return err
}

func kindOf(urls []string) (kind string, err error) {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return "", errors.New("want addresses such as nats://host:4222 or kafka://host:9092")
		}
		of := map[string]string{"nats": "nats", "tls": "nats", "kafka": "kafka"}[u.Scheme]
		switch {
		case of == "":
			return "", errors.New("want nats:// or kafka://, or nothing for the bus in PostgreSQL")
		case kind != "" && of != kind:
			return "", errors.New("want addresses of one kind, all nats:// or all kafka://")
		}
		kind = of
	}
	return kind, nil
}

// A Bus is open until it is closed.
type Bus struct {
	transport
	log     *slog.Logger
	retries retries
}

// A transport is what differs between the kinds of bus.
type transport interface {
	// publish hands messages over, in order, and returns when they are kept, or
	// with an error how many are, of the first ones.
	publish(ctx context.Context, topic string, list ...*message.Message) (n int, err error)
	// relay publishes what logs have behind positions, up to limit events of each, for
	// so long at most. It returns up to where that is kept, which may be a part if there
	// is an error, and the logs of which there may be more. tx is that of the checkpoints:
	// a transport that can writes in it, and so keeps all or none.
	relay(ctx context.Context, tx pgx.Tx, list []store.Position, limit int, most time.Duration) (
		ends []store.Position, more []events.ID, err error)
	// page is how many events are relayed together.
	page() int
	// subscribe returns the messages of a topic, one at a time. Of those that
	// name the same group each gets its share, beginning with the oldest message
	// that is kept. Who names none gets every message, from now
	// on; those of events that it knows may be left out.
	subscribe(ctx context.Context, topic, group string, knows Knows) (message.Subscriber, error)
	// tidy removes what nobody needs any more.
	tidy(ctx context.Context) error
	close() error
}

// Open opens the bus that cfg names. It takes ten seconds at most.
func Open(ctx context.Context, cfg Config) (*Bus, error) {
	kind, err := kindOf(cfg.URLs)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	b := &Bus{log: cfg.Log, retries: patient}
	switch kind {
	case "nats":
		b.transport, err = openNATS(ctx, cfg.URLs, b.retries.longest(), cfg.Log)
	case "kafka":
		b.transport, err = openKafka(cfg.URLs, quiet(cfg.Log))
	default:
		b.transport = &postgres{db: cfg.DB, log: cfg.Log, logger: quiet(cfg.Log)}
	}
	if err != nil {
		return nil, fmt.Errorf("open the bus: %w", err)
	}
	return b, nil
}

// oneByOne publishes to a server that each message is a round trip to.
func oneByOne(ctx context.Context, p message.Publisher, topic string, list []*message.Message) (n int, err error) {
	for n, m := range list {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		if err := p.Publish(topic, m); err != nil {
			return n, err
		}
	}
	return len(list), nil
}

// Close ends the connections that are the bus's own.
func (b *Bus) Close() error { return b.close() }

// quiet is log for Watermill, whose notes on starting and stopping are of use
// to nobody but who looks for faults.
func quiet(log *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(log, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})
}
