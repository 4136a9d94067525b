package bus

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	kafkabus "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// kafka is the bus on Kafka brokers. The events of a workspace share a partition, and so
// stay in order. Topics and their retention are managed by the operator, or by the broker
// if it creates topics automatically.
type kafka struct {
	brokers   []string
	account   *url.URL // the first address, whose user, password and options are used for all
	logger    watermill.LoggerAdapter
	publisher message.Publisher
}

// byWorkspace assigns messages to the partition of their workspace.
var byWorkspace = kafkabus.NewWithPartitioningMarshaler(func(_ string, m *message.Message) (string, error) {
	return m.Metadata.Get(metaWorkspace), nil
})

func newKafka(urls []string, logger watermill.LoggerAdapter) (*kafka, error) {
	b := &kafka{logger: logger}
	for i, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("address %d is malformed", i+1) // err would quote the password
		}
		if b.brokers = append(b.brokers, u.Host); b.account == nil {
			b.account = u
		}
	}
	return b, nil
}

func openKafka(urls []string, logger watermill.LoggerAdapter) (*kafka, error) {
	b, err := newKafka(urls, logger)
	if err != nil {
		return nil, err
	}
	c := b.config()
	c.Producer.RequiredAcks, c.Producer.Idempotent, c.Net.MaxOpenRequests = sarama.WaitForAll, true, 1
	c.Producer.Return.Successes = true
	c.Producer.Retry.Max = 1 // fail soon; the relay retries
	publisher, err := kafkabus.NewPublisher(kafkabus.PublisherConfig{Brokers: b.brokers, Marshaler: byWorkspace,
		OverwriteSaramaConfig: c}, logger)
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	b.publisher = publisher
	return b, nil
}

// config returns the settings that publisher and subscribers share. tls=true in the address
// turns on TLS; a user and password turn on SASL/PLAIN.
func (b *kafka) config() *sarama.Config {
	c := sarama.NewConfig()
	c.ClientID, c.Version = "workspace-service", sarama.V2_1_0_0
	c.Net.DialTimeout, c.Net.ReadTimeout, c.Net.WriteTimeout = openLimit/4, openLimit/4, openLimit/4
	c.Metadata.Retry.Max, c.Metadata.Retry.Backoff = 1, 250*time.Millisecond
	c.Metadata.Timeout = openLimit / 2
	c.Net.TLS.Enable = b.account.Query().Get("tls") == "true"
	if password, ok := b.account.User.Password(); ok {
		c.Net.SASL.Enable, c.Net.SASL.User, c.Net.SASL.Password = true, b.account.User.Username(), password
	}
	return c
}

func (b *kafka) publish(ctx context.Context, topic string, list ...*message.Message) (n int, err error) {
	return publishEach(ctx, b.publisher, topic, list)
}

func (b *kafka) relay(ctx context.Context, tx pgx.Tx, list []store.Position, limit int, most time.Duration) (
	ends []store.Position, more []events.ID, err error) {
	return relayEach(ctx, tx, list, limit, most, func(ctx context.Context, messages []*message.Message) (int, error) {
		return publishEach(ctx, b.publisher, Topic, messages)
	})
}

func (b *kafka) page() int { return pageSize }

func (b *kafka) subscribe(_ context.Context, _, group string, _ Knows) (message.Subscriber, error) {
	c := b.config()
	c.Consumer.Return.Errors = true
	if group != "" {
		c.Consumer.Offsets.Initial = sarama.OffsetOldest
	}
	return kafkabus.NewSubscriber(kafkabus.SubscriberConfig{
		Brokers: b.brokers, Unmarshaler: byWorkspace, ConsumerGroup: group, OverwriteSaramaConfig: c, NackResendSleep: retryDelay,
	}, b.logger)
}

func (b *kafka) deleteOld(context.Context) error { return nil }

func (b *kafka) close() error { return b.publisher.Close() }
