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

// A pgProxy is a proxy between a client and PostgreSQL that can inject failures.
type pgProxy struct {
	t     *testing.T
	name  string // application name of its connections
	proxy *toxiproxy.Proxy
}

// newPGProxy starts a proxy to an address until t ends.
func newPGProxy(t *testing.T, name, to string) *pgProxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &pgProxy{t, name, toxiproxy.NewProxy(server, name, address.Free(t), to)}
	require.NoError(t, p.proxy.Start())
	t.Cleanup(p.proxy.Stop)
	return p
}

func (p *pgProxy) address() string { return p.proxy.Listen }

// cut ends all connections and accepts no new ones.
func (p *pgProxy) cut() { p.proxy.Stop() }

func (p *pgProxy) restore() { require.NoError(p.t, p.proxy.Start()) }

// delay delays every byte in both directions, by ms milliseconds give or take a third.
func (p *pgProxy) delay(ms int) (heal func()) {
	return p.addToxics("latency", fmt.Sprintf(`{"latency":%d,"jitter":%d}`, ms, ms/3))
}

// stall lets no byte through and keeps connections open. They end when it heals.
func (p *pgProxy) stall() (heal func()) { return p.addToxics("timeout", `{"timeout":0}`) }

func (p *pgProxy) addToxics(kind, attributes string) (heal func()) {
	directions := []string{"upstream", "downstream"}
	for _, direction := range directions {
		_, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(
			fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":%s}`, direction, kind, direction, attributes)))
		require.NoError(p.t, err)
	}
	return func() {
		for _, direction := range directions {
			require.NoError(p.t, p.proxy.Toxics.RemoveToxic(context.Background(), direction))
		}
	}
}
