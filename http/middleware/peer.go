package middleware

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"svc/input"
)

type addressKey struct{}

// Address returns the IP address of the caller: that of the connection, or the
// one that [Forwarded] found behind it.
func Address(r *http.Request) string {
	if address, ok := r.Context().Value(addressKey{}).(string); ok {
		return address
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Forwarded lets [Address] see the caller behind trusted proxies. It goes around
// [Traced], whose log lines say the address too.
func Forwarded(trusted func(netip.Addr) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if address, ok := behind(r, trusted); ok {
			r = r.WithContext(context.WithValue(r.Context(), addressKey{}, address))
		}
		next.ServeHTTP(w, r)
	})
}

// behind follows X-Forwarded-For from its end for as long as whoever wrote it is
// trusted, so that a caller cannot choose an address by sending a header of their
// own. Where a proxy wrote something else than an address, that proxy is as far as
// anybody knows. ok is false if the peer is not trusted, or says nothing.
func behind(r *http.Request, trusted func(netip.Addr) bool) (address string, ok bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "", false
	}
	at := peer.Addr()
	for _, hops := range slices.Backward(r.Header.Values("X-Forwarded-For")) {
		for hops != "" && trusted(at) {
			comma := strings.LastIndexByte(hops, ',')
			hop := strings.TrimSpace(hops[comma+1:])
			hops = hops[:max(comma, 0)]
			if hop == "" { // lists may have empty elements: RFC 9110, 5.6.1
				continue
			}
			from, err := parseHop(hop)
			if err != nil {
				return at.String(), true
			}
			at, ok = from, true
		}
	}
	return at.String(), ok
}

// parseHop reads an address that may have a port, as some proxies write it.
func parseHop(text string) (netip.Addr, error) {
	if hop, err := netip.ParseAddrPort(text); err == nil {
		return hop.Addr().Unmap().WithZone(""), nil
	}
	if bare, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(bare, "]")
	}
	hop, err := netip.ParseAddr(text)
	return hop.Unmap().WithZone(""), err
}

// UserAgent returns what the caller says of itself, made fit to be kept.
func UserAgent(r *http.Request) string { return input.UserAgent(r.UserAgent()) }
