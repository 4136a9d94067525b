package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/http/middleware"
	"svc/test/journal"
)

// proxies trusts 10.0.0.0/8, 192.0.2.7 and 2001:db8:1::/48.
func proxies(t *testing.T) func(netip.Addr) bool {
	var list config.CIDRs
	require.NoError(t, list.UnmarshalText([]byte("10.0.0.0/8, 192.0.2.7, 2001:db8:1::/48")))
	return list.Contains
}

func TestAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:4711":        "192.0.2.7",
		"[2001:db8::7]:4711":    "2001:db8::7",
		"[fe80::7%eth0]:4711":   "fe80::7%eth0",
		"a socket with no port": "a socket with no port",
	} {
		r := get("/")
		r.RemoteAddr = remote
		require.Equal(t, want, middleware.Address(r))
	}
}

// Forwarding headers are ignored without trusted proxies.
func TestAddressIgnoresForwardingHeaders(t *testing.T) {
	r := get("/")
	r.RemoteAddr = "192.0.2.7:4711"
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "True-Client-Ip"} {
		r.Header.Set(name, "203.0.113.9")
	}
	require.Equal(t, "192.0.2.7", middleware.Address(r))
}

func TestAddressBehindTrustedProxies(t *testing.T) {
	for name, c := range map[string]struct {
		peer    string
		headers []string
		want    string
	}{
		"no header":                       {"10.0.0.1:80", nil, "10.0.0.1"},
		"an empty header":                 {"10.0.0.1:80", []string{""}, "10.0.0.1"},
		"one proxy":                       {"10.0.0.1:80", []string{"203.0.113.9"}, "203.0.113.9"},
		"a proxy named by its address":    {"192.0.2.7:80", []string{"203.0.113.9"}, "203.0.113.9"},
		"its neighbour is none":           {"192.0.2.8:80", []string{"203.0.113.9"}, "192.0.2.8"},
		"two proxies":                     {"10.0.0.1:80", []string{"203.0.113.9, 10.2.3.4"}, "203.0.113.9"},
		"an address of the caller's own":  {"10.0.0.1:80", []string{"198.51.100.1, 203.0.113.9"}, "203.0.113.9"},
		"a proxy's, by the caller":        {"10.0.0.1:80", []string{"10.9.9.9, 203.0.113.9, 10.2.3.4"}, "203.0.113.9"},
		"two headers":                     {"10.0.0.1:80", []string{"198.51.100.1, 203.0.113.9", "10.2.3.4"}, "203.0.113.9"},
		"two headers, the first forged":   {"10.0.0.1:80", []string{"198.51.100.1", "203.0.113.9"}, "203.0.113.9"},
		"two headers, the second empty":   {"10.0.0.1:80", []string{"203.0.113.9", ""}, "203.0.113.9"},
		"all of them are proxies":         {"10.0.0.1:80", []string{"10.5.5.5, 10.2.3.4"}, "10.5.5.5"},
		"IPv6":                            {"[2001:db8:1::5]:80", []string{"2001:DB8:7:0::9"}, "2001:db8:7::9"},
		"IPv6 in brackets":                {"10.0.0.1:80", []string{"[2001:db8:7::9]"}, "2001:db8:7::9"},
		"IPv6 with a port":                {"10.0.0.1:80", []string{"[2001:db8:7::9]:4711"}, "2001:db8:7::9"},
		"IPv6 with a zone":                {"10.0.0.1:80", []string{"fe80::9%eth0"}, "fe80::9"},
		"IPv4 with a port":                {"10.0.0.1:80", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		"IPv4 as IPv6":                    {"10.0.0.1:80", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		"a proxy's IPv4 as IPv6":          {"[::ffff:10.0.0.1]:80", []string{"203.0.113.9, ::ffff:10.2.3.4"}, "203.0.113.9"},
		"spaces and empty elements":       {"10.0.0.1:80", []string{" , 203.0.113.9 ,\t, 10.2.3.4,"}, "203.0.113.9"},
		"garbage":                         {"10.0.0.1:80", []string{"unknown"}, "10.0.0.1"},
		"garbage by the caller":           {"10.0.0.1:80", []string{"<script>, 203.0.113.9"}, "203.0.113.9"},
		"garbage by the second proxy":     {"10.0.0.1:80", []string{"198.51.100.1, unknown, 10.2.3.4"}, "10.2.3.4"},
		"another header's form":           {"10.0.0.1:80", []string{`for="[2001:db8:7::9]:80"`}, "10.0.0.1"},
		"half of a bracket":               {"10.0.0.1:80", []string{"[2001:db8:7::9"}, "2001:db8:7::9"},
		"a port without an address":       {"10.0.0.1:80", []string{":80"}, "10.0.0.1"},
		"as many as a header holds":       {"10.0.0.1:80", []string{strings.Repeat("10.1.1.1,", 7000) + "203.0.113.9"}, "203.0.113.9"},
		"a stranger who says a lot":       {"203.0.113.9:80", []string{"10.0.0.1, 198.51.100.1"}, "203.0.113.9"},
		"a peer that has no address":      {"@", []string{"203.0.113.9"}, "@"},
		"a peer on a link, not in a list": {"[fe80::7%eth0]:80", []string{"203.0.113.9"}, "fe80::7%eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := get("/")
			r.RemoteAddr = c.peer
			r.Header["X-Forwarded-For"] = c.headers
			for _, other := range []string{"X-Real-Ip", "Forwarded", "True-Client-Ip"} {
				r.Header.Set(other, "198.51.100.77")
			}
			var log journal.Log
			var inside string
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inside = middleware.Address(r) })
			middleware.Forwarded(proxies(t), middleware.Traced(log.Logger(), handler)).ServeHTTP(httptest.NewRecorder(), r)
			require.Equal(t, c.want, inside)
			require.Equal(t, c.want, log.Line(t, "request")["ip"])
		})
	}
}

func TestUserAgentIsSanitized(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"none":                       {"", ""},
		"a browser":                  {"Mozilla/5.0 (X11; Linux)", "Mozilla/5.0 (X11; Linux)"},
		"as long as it may be":       {strings.Repeat("ü", 256), strings.Repeat("ü", 256)},
		"longer":                     {strings.Repeat("ü", 257), strings.Repeat("ü", 256)},
		"no UTF-8":                   {"curl/\xff8", "curl/\uFFFD8"},
		"a NUL":                      {"curl/\x008", "curl/\uFFFD8"},
		"a token":                    {"curl " + token, "curl tok_svc_[redacted]"},
		"a token at the very border": {strings.Repeat("x", 240) + token, strings.Repeat("x", 240) + "tok_svc_[redacte"},
	} {
		t.Run(name, func(t *testing.T) {
			r := get("/")
			r.Header["User-Agent"] = []string{c.sent}
			require.Equal(t, c.want, middleware.UserAgent(r))
		})
	}
}

func TestOriginIsTakenFromTrustedProxies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peer    string
		headers []string
		want    bool
	}{
		"the web app":            {"10.0.0.1:80", []string{"ui"}, true},
		"an untrusted peer":      {"203.0.113.9:80", []string{"ui"}, false},
		"no header":              {"10.0.0.1:80", nil, false},
		"another value":          {"10.0.0.1:80", []string{"cli"}, false},
		"twice":                  {"10.0.0.1:80", []string{"ui", "ui"}, false},
		"a peer without address": {"@", []string{"ui"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := get("/")
			r.RemoteAddr = c.peer
			r.Header["X-Svc-Origin"] = c.headers
			var inside bool
			handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { inside = middleware.FromUI(r) })
			middleware.TrustOrigin(proxies(t), handler).ServeHTTP(httptest.NewRecorder(), r)
			require.Equal(t, c.want, inside)
		})
	}
}
