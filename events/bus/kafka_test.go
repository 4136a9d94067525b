package bus

import (
	"net"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		urls []string
		want string // part of the error; "" for none
	}{
		"the bus in PostgreSQL":    {nil, ""},
		"NATS":                     {[]string{"nats://a:4222"}, ""},
		"NATS, encrypted":          {[]string{"tls://a:4222"}, ""},
		"servers of a cluster":     {[]string{"nats://a:4222", "tls://b:4222"}, ""},
		"Kafka":                    {[]string{"kafka://a:9092", "kafka://b:9092"}, ""},
		"an account":               {[]string{"kafka://svc:hunter2@a:9092?tls=true"}, ""},
		"a bus of some other kind": {[]string{"redis://:hunter2@a"}, "want nats:// or kafka://"},
		"two kinds":                {[]string{"nats://a:4222", "kafka://:hunter2@b:9092"}, "one kind"},
		"no host":                  {[]string{"nats://"}, "want addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Check(c.urls); c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
				require.NotContains(t, err.Error(), "hunter2")
			}
		})
	}
}

// silent is a server that accepts connections and never answers.
func silent(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}

func TestUnreachableBusFailsSoon(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"nats", "kafka"} {
		for name, host := range map[string]string{"refuses": "127.0.0.1:1", "is silent": silent(t)} {
			t.Run(scheme+" "+name, func(t *testing.T) {
				t.Parallel()
				begun := time.Now()
				_, err := Open(t.Context(), Config{URLs: []string{scheme + "://svc:hunter2@" + host}, Log: newSilence()})
				require.ErrorContains(t, err, "open the bus: ")
				require.NotContains(t, err.Error(), "hunter2")
				require.Less(t, time.Since(begun), 2*openLimit)
			})
		}
	}
}

func TestKafkaAuthenticationAndTLS(t *testing.T) {
	b, err := newKafka([]string{"kafka://svc:hunter2@a:9093?tls=true", "kafka://b:9093"}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a:9093", "b:9093"}, b.brokers)
	c := b.config()
	require.NoError(t, c.Validate())
	require.True(t, c.Net.TLS.Enable && c.Net.SASL.Enable)
	require.Equal(t, "svc", c.Net.SASL.User)
	require.Equal(t, "hunter2", c.Net.SASL.Password)

	b, err = newKafka([]string{"kafka://a:9092"}, nil)
	require.NoError(t, err)
	require.False(t, b.config().Net.TLS.Enable || b.config().Net.SASL.Enable)
}

// A mock broker takes messages and delivers them.
func TestKafka(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broker := sarama.NewMockBroker(t, 1)
	defer broker.Close()
	broker.SetHandlerByMap(map[string]sarama.MockResponse{
		"ApiVersionsRequest": sarama.NewMockApiVersionsResponse(t),
		"MetadataRequest": sarama.NewMockMetadataResponse(t).SetBroker(broker.Addr(), broker.BrokerID()).SetLeader(Topic, 0,
			broker.BrokerID()),
		"InitProducerIDRequest": sarama.NewMockInitProducerIDResponse(t),
		"ProduceRequest":        sarama.NewMockProduceResponse(t).SetVersion(7),
		"OffsetRequest": sarama.NewMockOffsetResponse(t).SetOffset(Topic, 0, sarama.OffsetNewest, 0).SetOffset(Topic, 0,
			sarama.OffsetOldest, 0),
		"FetchRequest": sarama.NewMockFetchResponse(t, 1).SetMessage(Topic, 0, 0, sarama.StringEncoder("sent by somebody")),
	})
	w.cfg.URLs = []string{"kafka://" + broker.Addr()}
	b, workspace := w.open(t), newID()
	w.append(t, workspace, 3)
	w.relay(t, b, workspace)
	require.EqualValues(t, 3, w.position(t, workspace))
	produced := 0
	for _, r := range broker.History() {
		if _, ok := r.Request.(*sarama.ProduceRequest); ok {
			produced++
		}
	}
	require.Equal(t, 3, produced)
	require.Equal(t, "sent by somebody", string(within(t, listen(t, b, Topic, "")).Payload))
}

func TestWorkspaceHasOnePartition(t *testing.T) {
	w := message.NewMessage("id", []byte("payload"))
	w.Metadata.Set("workspace", "acme")
	m, err := byWorkspace.Marshal(Topic, w)
	require.NoError(t, err)
	key, err := m.Key.Encode()
	require.NoError(t, err)
	require.Equal(t, "acme", string(key))
}
