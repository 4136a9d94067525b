package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	natsbus "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
	"svc/fault"
)

const (
	duplicateWindow = 2 * time.Minute // how long the server remembers message ids to drop duplicates
	inactiveLimit   = time.Hour       // how long the server keeps a subscriber without a group that has lost its connection
)

// jetStream is the bus on NATS servers.
type jetStream struct {
	urls       string
	ackWait    time.Duration // after which the server redelivers an unacknowledged message, because its process has died
	log        *slog.Logger
	publishers map[string]message.Publisher // by topic; they share a connection
}

func openNATS(ctx context.Context, urls []string, ackWait time.Duration, log *slog.Logger) (*jetStream, error) {
	b := &jetStream{urls: strings.Join(urls, ","), ackWait: ackWait, log: log,
		publishers: map[string]message.Publisher{Topic: nil, Parked: nil}}
	conn, err := b.connect()
	if err != nil {
		return nil, err
	}
	if err := createStreams(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	for topic := range b.publishers {
		// The server drops an event that it has already. Parked messages keep duplicates:
		// two consumers may have parked the same event.
		once := natsbus.JetStreamConfig{TrackMsgId: topic == Topic}
		b.publishers[topic], err = natsbus.NewPublisherWithNatsConn(conn, natsbus.PublisherPublishConfig{
			Marshaler: &natsbus.NATSMarshaler{}, SubjectCalculator: natsbus.DefaultSubjectCalculator, JetStream: once,
		}, quietLogger(log))
		if err != nil {
			conn.Close()
			return nil, fmt.Errorf("open publisher of %s: %w", topic, err)
		}
	}
	return b, nil
}

// connect returns a connection that reconnects, however long the servers are away.
func (b *jetStream) connect() (*nats.Conn, error) {
	conn, err := nats.Connect(b.urls, nats.Name("workspace-service"), nats.Timeout(openLimit/2), nats.MaxReconnects(-1))
	return conn, fault.Wrap(err, "connect to NATS")
}

// createStreams creates the streams that do not exist. An operator who wants other settings, such
// as more replicas, creates them first.
func createStreams(ctx context.Context, conn *nats.Conn) error {
	js, err := conn.JetStream()
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	for topic, age := range map[string]time.Duration{Topic: retention, Parked: parkedRetention} {
		_, err := js.StreamInfo(topic, nats.Context(ctx))
		if errors.Is(err, nats.ErrStreamNotFound) {
			_, err = js.AddStream(&nats.StreamConfig{Name: topic, Subjects: []string{topic}, MaxAge: age,
				Duplicates: duplicateWindow}, nats.Context(ctx))
		}
		if err != nil {
			return fmt.Errorf("set up stream %s: %w", topic, err)
		}
	}
	return nil
}

// publish publishes one message after the other, each in a round trip of its own.
func (b *jetStream) publish(ctx context.Context, topic string, list ...*message.Message) (n int, err error) {
	for n, m := range list {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		if err := b.publishers[topic].Publish(topic, m); err != nil {
			return n, err
		}
	}
	return len(list), nil
}

func (b *jetStream) relay(ctx context.Context, tx pgx.Tx, list []store.Position, limit int, most time.Duration) (
	ends []store.Position, more []events.ID, err error) {
	records, err := store.Page{Logs: list, Limit: limit, Decode: store.Stored}.Read(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	if err := follow.CheckComplete(ctx, tx, list, follow.Ends(records)); err != nil || len(records) == 0 {
		return nil, nil, err
	}
	publishing, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	n, err := b.publish(publishing, Topic, messagesOf(records)...)
	switch {
	case err != nil && n > 0 && publishing.Err() != nil: // the time limit is no error: the rest is published next
		err = nil
	case err != nil:
		err = fmt.Errorf("publish: %w", err)
	}
	more = store.LogsWithMore(records[:n], len(list), limit)
	for _, end := range follow.Ends(records[n:]) {
		more = append(more, end.Workspace)
	}
	return follow.Ends(records[:n]), more, err
}

func messagesOf(records []events.Record) []*message.Message {
	list := make([]*message.Message, len(records))
	for i, r := range records {
		m := message.NewMessage(r.ID.String(), message.Payload(r.Data))
		m.Metadata = message.Metadata{
			metaWorkspace: r.Workspace.String(), metaSeq: strconv.FormatInt(r.Seq, 10), metaKind: r.Event.Kind(),
			metaSchema: strconv.Itoa(r.Schema), metaStream: r.Stream.String(), metaAt: r.At.Format(time.RFC3339Nano),
		}
		list[i] = m
	}
	return list
}

func (b *jetStream) page() int { return pageSize }

// subscribe opens a connection for each subscriber, because a subscriber closes its
// connection when it is closed.
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
	s := &jetSubscriber{conn: conn, js: js, group: group, ackWait: b.ackWait, log: b.log, subscription: newSubscription()}
	if group != "" {
		if err := ensureConsumer(ctx, conn, topic, group, b.ackWait); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return s, nil
}

// A jetSubscriber delivers the messages of one subscription, each after the previous one
// was processed. It replaces that of watermill-nats, which may send to its channel after
// closing it and so panics in a process that is stopping.
type jetSubscriber struct {
	conn    *nats.Conn
	js      nats.JetStreamContext
	group   string // may be empty
	ackWait time.Duration
	log     *slog.Logger
	subscription
}

// Subscribe subscribes at once. It delivers messages until ctx ends, the subscriber is
// closed, or the subscription fails.
func (s *jetSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	options := []nats.SubOpt{nats.Bind(topic, s.group)}
	if s.group == "" {
		options = []nats.SubOpt{
			nats.BindStream(topic), nats.AckExplicit(), nats.AckWait(s.ackWait), nats.DeliverNew(), nats.InactiveThreshold(inactiveLimit),
		}
	}
	queue, err := s.js.QueueSubscribeSync(topic, s.group, options...)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", topic, err)
	}
	// The subscription has to end before a message is given back: otherwise the server
	// would send it here again.
	leave := sync.OnceFunc(func() {
		if err := queue.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			s.log.Warn("unsubscribe from the bus", "topic", topic, "group", s.group, "err", err)
		}
	})
	return s.read(ctx, func(ctx context.Context, to chan<- *message.Message) {
		defer leave()
		for ctx.Err() == nil {
			m, err := queue.NextMsgWithContext(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, nats.ErrSlowConsumer): // messages that were dropped are redelivered
				continue
			case err != nil:
				s.log.Error("read from the bus", "topic", topic, "group", s.group, "err", err)
				return
			}
			if err := s.deliver(ctx, m, to, leave); err != nil {
				s.log.Warn("a message will be delivered again", "topic", topic, "group", s.group, "err", err)
			}
		}
	}), nil
}

// deliver returns when a message was processed or refused. A message that is being
// processed when ctx ends gets half of closeLimit, and is then cancelled.
func (s *jetSubscriber) deliver(ctx context.Context, raw *nats.Msg, to chan<- *message.Message, leave func()) error {
	m, err := (&natsbus.NATSMarshaler{}).Unmarshal(raw)
	if err != nil { // not published by this service: events have no duplicate headers
		s.log.Error("a malformed message is skipped", "subject", raw.Subject, "err", err)
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
			return raw.NakWithDelay(retryDelay)
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

// Close waits for the message that is being processed, and closes the connection.
func (s *jetSubscriber) Close() error {
	err := s.subscription.Close()
	if s.conn.IsConnected() {
		_ = s.conn.FlushTimeout(closeLimit) // let the server know what was refused
	}
	s.conn.Close()
	return err
}

// ensureConsumer creates the consumer of a group, or sets its ackWait to that of this build.
// A consumer that the client library creates while subscribing would also be deleted with
// the subscription, together with the position of the group. A group processes one message
// at a time in all processes, so messages stay in order even if one is redelivered.
func ensureConsumer(ctx context.Context, conn *nats.Conn, topic, group string, ackWait time.Duration) error {
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
	return fault.Wrap(err, "set up consumer %s of stream %s", group, topic)
}

func (b *jetStream) deleteOld(context.Context) error { return nil } // streams have a maximum age

func (b *jetStream) close() error { return b.publishers[Topic].Close() }
