package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	natsbus "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"svc/events"
	"svc/events/store"
)

const (
	same   = 2 * time.Minute // how long the server knows the id of a message that it has
	absent = time.Hour       // until a subscriber without a group is forgotten that lost its connection
)

// jetStream is the bus on NATS servers.
type jetStream struct {
	urls       string
	ackWait    time.Duration // until a message comes again that nobody acknowledged, because whoever had it has ended
	logger     watermill.LoggerAdapter
	publishers map[string]message.Publisher // by topic; on one connection
}

func openNATS(ctx context.Context, urls []string, ackWait time.Duration, logger watermill.LoggerAdapter) (*jetStream, error) {
	b := &jetStream{urls: strings.Join(urls, ","), ackWait: ackWait, logger: logger,
		publishers: map[string]message.Publisher{Topic: nil, Parked: nil}}
	conn, err := b.connect()
	if err != nil {
		return nil, err
	}
	if err := provide(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	for topic := range b.publishers {
		// The server leaves out an event that it has. What two consumers have
		// parked has one id and is there twice.
		once := natsbus.JetStreamConfig{TrackMsgId: topic == Topic}
		b.publishers[topic], err = natsbus.NewPublisherWithNatsConn(conn, natsbus.PublisherPublishConfig{
			Marshaler: &natsbus.NATSMarshaler{}, SubjectCalculator: natsbus.DefaultSubjectCalculator, JetStream: once,
		}, logger)
		if err != nil {
			conn.Close()
			return nil, fmt.Errorf("publisher of %s: %w", topic, err)
		}
	}
	return b, nil
}

// connect comes back to servers that were away for however long.
func (b *jetStream) connect() (*nats.Conn, error) {
	conn, err := nats.Connect(b.urls, nats.Name("workspace-service"), nats.Timeout(openLimit/2), nats.MaxReconnects(-1))
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return conn, nil
}

// provide makes the streams that are not there. An operator who wants others,
// with more replicas for one, makes them first.
func provide(ctx context.Context, conn *nats.Conn) error {
	js, err := conn.JetStream()
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	for topic, age := range map[string]time.Duration{Topic: kept, Parked: keptParked} {
		_, err := js.StreamInfo(topic, nats.Context(ctx))
		if errors.Is(err, nats.ErrStreamNotFound) {
			_, err = js.AddStream(&nats.StreamConfig{Name: topic, Subjects: []string{topic}, MaxAge: age,
				Duplicates: same}, nats.Context(ctx))
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", topic, err)
		}
	}
	return nil
}

func (b *jetStream) publish(ctx context.Context, topic string, list ...*message.Message) (n int, err error) {
	return oneByOne(ctx, b.publishers[topic], topic, list)
}

func (b *jetStream) relay(ctx context.Context, tx pgx.Tx, list []store.Position, limit int, most time.Duration) (
	ends []store.Position, more []events.ID, err error) {
	return relayEach(ctx, tx, list, limit, most, func(ctx context.Context, messages []*message.Message) (int, error) {
		return oneByOne(ctx, b.publishers[Topic], Topic, messages)
	})
}

func (b *jetStream) page() int { return page }

// subscribe has a connection of its own, because a subscriber that is closed
// closes its connection.
func (b *jetStream) subscribe(ctx context.Context, topic, group string, _ Knows) (message.Subscriber, error) {
	conn, err := b.connect()
	if err != nil {
		return nil, err
	}
	options := []nats.SubOpt{nats.ManualAck(), nats.AckExplicit(), nats.AckWait(b.ackWait)}
	if group == "" {
		options = append(options, nats.DeliverNew(), nats.InactiveThreshold(absent))
	} else if err := provideGroup(ctx, conn, topic, group, b.ackWait); err != nil {
		conn.Close()
		return nil, err
	}
	subscriber, err := natsbus.NewSubscriberWithNatsConn(conn, natsbus.SubscriberSubscriptionConfig{
		Unmarshaler: &natsbus.NATSMarshaler{}, SubjectCalculator: natsbus.DefaultSubjectCalculator,
		QueueGroupPrefix: group, AckWaitTimeout: b.ackWait, CloseTimeout: closeLimit, NakDelay: natsbus.NewStaticDelay(again),
		JetStream: natsbus.JetStreamConfig{DurablePrefix: group, SubscribeOptions: options, AckAsync: group == ""},
	}, b.logger)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return subscriber, nil
}

// provideGroup makes the consumer of a group if it is not there, or has it wait
// as long as this build's tries take. One that the
// client library makes while it subscribes it would also remove when it ends,
// from under the others of the group and with all that it knows. A group takes
// in one message at a time, whichever process does: so they stay in order also
// when one has to come again.
func provideGroup(ctx context.Context, conn *nats.Conn, topic, group string, ackWait time.Duration) error {
	js, err := conn.JetStream()
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	info, err := js.ConsumerInfo(topic, group, nats.Context(ctx))
	switch {
	case err == nil && info.Config.AckWait != ackWait:
		info.Config.AckWait = ackWait
		_, err = js.UpdateConsumer(topic, &info.Config, nats.Context(ctx))
	case errors.Is(err, nats.ErrConsumerNotFound):
		_, err = js.AddConsumer(topic, &nats.ConsumerConfig{
			Durable: group, DeliverGroup: group, DeliverSubject: topic + "_to_" + group, FilterSubject: topic,
			DeliverPolicy: nats.DeliverAllPolicy, AckPolicy: nats.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: 1,
		}, nats.Context(ctx))
	}
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", group, topic, err)
	}
	return nil
}

func (b *jetStream) tidy(context.Context) error { return nil } // streams have an age

func (b *jetStream) close() error { return b.publishers[Topic].Close() }
