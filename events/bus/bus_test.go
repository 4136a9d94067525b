package bus

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		urls []string
		want string // part of the error; "" for none
	}{
		"the bus in PostgreSQL":     {nil, ""},
		"NATS":                      {[]string{"nats://a:4222"}, ""},
		"NATS, encrypted":           {[]string{"tls://a:4222"}, ""},
		"servers of a cluster":      {[]string{"nats://a:4222", "tls://b:4222"}, ""},
		"an account":                {[]string{"nats://svc:hunter2@a:4222"}, ""},
		"a bus of some other kind":  {[]string{"redis://:hunter2@a"}, "want nats:// or tls://"},
		"a bus of earlier versions": {[]string{"kafka://svc:hunter2@a:9092?tls=true"}, "want nats:// or tls://"},
		"two kinds":                 {[]string{"nats://a:4222", "kafka://:hunter2@b:9092"}, "want nats:// or tls://"},
		"no host":                   {[]string{"nats://"}, "want addresses"},
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
	for name, host := range map[string]string{"refuses": "127.0.0.1:1", "is silent": silent(t)} {
		t.Run("nats "+name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			_, err := Open(t.Context(), Config{URLs: []string{"nats://svc:hunter2@" + host}, Log: newSilence()})
			require.ErrorContains(t, err, "open the bus: ")
			require.NotContains(t, err.Error(), "hunter2")
			require.Less(t, time.Since(begun), 2*openLimit)
		})
	}
}
