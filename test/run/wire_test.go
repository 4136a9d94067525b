//go:build linux

package run

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"svc/test/address"
)

// A wire is what somebody's connections to PostgreSQL go through.
type wire struct {
	t     *testing.T
	name  string // by which PostgreSQL knows who is at its end
	proxy *toxiproxy.Proxy
}

func newWire(t *testing.T, name, to string) *wire {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := &wire{t, name, toxiproxy.NewProxy(server, name, address.Free(t), to)}
	require.NoError(t, w.proxy.Start())
	t.Cleanup(w.proxy.Stop)
	return w
}

func (w *wire) address() string { return w.proxy.Listen }

// cut ends all connections and takes no new ones.
func (w *wire) cut() { w.proxy.Stop() }

func (w *wire) mend() { require.NoError(w.t, w.proxy.Start()) }

// slow holds everything up, in both directions, by so many milliseconds.
func (w *wire) slow(ms int) (heal func()) {
	return w.poison("latency", fmt.Sprintf(`{"latency":%d,"jitter":%d}`, ms, ms/3))
}

// silence lets nothing through and ends no connection, until it is over: then
// they end.
func (w *wire) silence() (heal func()) { return w.poison("timeout", `{"timeout":0}`) }

func (w *wire) poison(kind, attributes string) (heal func()) {
	directions := []string{"upstream", "downstream"}
	for _, direction := range directions {
		_, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(
			fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":%s}`, direction, kind, direction, attributes)))
		require.NoError(w.t, err)
	}
	return func() {
		for _, direction := range directions {
			require.NoError(w.t, w.proxy.Toxics.RemoveToxic(context.Background(), direction))
		}
	}
}
