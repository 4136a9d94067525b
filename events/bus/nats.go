package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

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
	log        *slog.Logger
	publishers map[string]message.Publisher // by topic; on one connection
}

func openNATS(ctx context.Context, urls []string, ackWait time.Duration, log *slog.Logger) (*jetStream, error) {
	b := &jetStream{urls: strings.Join(urls, ","), ackWait: ackWait, log: log,
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
		}, quiet(log))
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
	js, err := conn.JetStream()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	s := &jetSubscriber{conn: conn, js: js, group: group, ackWait: b.ackWait, log: b.log, reading: newReading()}
	if group != "" {
		if err := provideGroup(ctx, conn, topic, group, b.ackWait); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return s, nil
}

// A jetSubscriber hands on the messages of one subscription, each when the one before was
// taken in. It is not that of watermill-nats, which closes its channel while it may still
// send to it: a process that stops at that moment panics.
type jetSubscriber struct {
	conn    *nats.Conn
	js      nats.JetStreamContext
	group   string // may be empty
	ackWait time.Duration
	log     *slog.Logger
	reading
}

// Subscribe subscribes at once and hands on until ctx ends, the subscriber is closed, or
// the subscription fails.
func (s *jetSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	options := []nats.SubOpt{nats.Bind(topic, s.group)}
	if s.group == "" {
		options = []nats.SubOpt{nats.BindStream(topic), nats.AckExplicit(), nats.AckWait(s.ackWait), nats.DeliverNew(), nats.InactiveThreshold(absent)}
	}
	subscription, err := s.js.QueueSubscribeSync(topic, s.group, options...)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", topic, err)
	}
	// Before a message is given back: it would come again at once, to nobody who takes it in.
	leave := sync.OnceFunc(func() {
		if err := subscription.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			s.log.Warn("leave the bus", "topic", topic, "group", s.group, "err", err)
		}
	})
	return s.read(ctx, func(ctx context.Context, to chan<- *message.Message) {
		defer leave()
		for ctx.Err() == nil {
			m, err := subscription.NextMsgWithContext(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, nats.ErrSlowConsumer): // what was dropped comes again
				continue
			case err != nil:
				s.log.Error("read from the bus", "topic", topic, "group", s.group, "err", err)
				return
			}
			if err := s.deliver(ctx, m, to, leave); err != nil {
				s.log.Warn("a message comes again", "topic", topic, "group", s.group, "err", err)
			}
		}
	}), nil
}

// deliver returns when a message was taken in or refused. One that is being taken in when
// ctx ends has half of closeLimit for it, and is then cut off.
func (s *jetSubscriber) deliver(ctx context.Context, raw *nats.Msg, to chan<- *message.Message, leave func()) error {
	m, err := (&natsbus.NATSMarshaler{}).Unmarshal(raw)
	if err != nil { // somebody else's: no event has a header twice
		s.log.Error("a message is left out", "subject", raw.Subject, "err", err)
		return raw.Term()
	}
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	m.SetContext(within)
	select {
	case to <- m:
	case <-ctx.Done():
		leave()
		return raw.Nak()
	}
	ending, cut, late := ctx.Done(), (<-chan time.Time)(nil), (<-chan time.Time)(nil)
	for {
		select {
		case <-m.Acked():
			if s.group == "" {
				return raw.Ack()
			}
			return raw.AckSync()
		case <-m.Nacked():
			return raw.NakWithDelay(again)
		case <-ending:
			leave()
			ending, cut, late = nil, time.After(closeLimit/2), time.After(closeLimit*3/4)
		case <-cut:
			cancel()
		case <-late:
			return ctx.Err()
		}
	}
}

// Close waits for the message that is being taken in, and ends the connection.
func (s *jetSubscriber) Close() error {
	err := s.reading.Close()
	if s.conn.IsConnected() {
		_ = s.conn.FlushTimeout(closeLimit) // what was refused is with the server
	}
	s.conn.Close()
	return err
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
