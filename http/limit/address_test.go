package limit_test

import (
	"net"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/limit"
)

// All addresses of an IPv6 /64 share one limit.
func TestIPv6NetworkIsOneCaller(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":                "address 192.0.2.7",
		"192.0.2.8":                "address 192.0.2.8",
		"::ffff:192.0.2.7":         "address 192.0.2.7",
		"2001:db8:1:2::7":          "address 2001:db8:1:2::/64",
		"2001:db8:1:2:ffff:1:2:3":  "address 2001:db8:1:2::/64",
		"2001:db8:1:3::7":          "address 2001:db8:1:3::/64",
		"fe80::1%eth0":             "address fe80::/64",
		"not an address, as given": "address not an address, as given",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = net.JoinHostPort(address, "443")
		require.Equal(t, want, limit.Address(r))
	}
}

func TestNetworksOfOneCustomer(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":             "address 192.0.2.7",
		"2001:db8:1:2::7":       "address 2001:db8:1::/56",
		"2001:db8:1:ff::7":      "address 2001:db8:1::/56",
		"2001:db8:1:100::7":     "address 2001:db8:1:100::/56",
		"::ffff:192.0.2.7":      "address 192.0.2.7",
		"fe80:0:0:1234::1%eth0": "address fe80:0:0:1200::/56",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = net.JoinHostPort(address, "443")
		require.Equal(t, want, limit.Network(r, 56))
	}
}
