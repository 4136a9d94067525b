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

// Address returns the caller's IP address: the one that [Forwarded] has found, or the peer of the
// connection.
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

// Forwarded makes [Address] return the address that trusted proxies forward. It must wrap [Traced],
// which logs the address.
func Forwarded(trusted func(netip.Addr) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header["X-Forwarded-For"] != nil {
			if address, ok := forwardedAddress(r, trusted); ok {
				r = r.WithContext(context.WithValue(r.Context(), addressKey{}, address))
			}
		}
		next.ServeHTTP(w, r)
	})
}

// OriginHeader is the header in which the web app says that it makes the request for a person.
const OriginHeader = "X-Svc-Origin"

// originUI is the value of the header.
const originUI = "ui"

type fromUIKey struct{}

// SetOriginUI sets the header that [FromUI] looks for.
func SetOriginUI(h http.Header) { h.Set(OriginHeader, originUI) }

// TrustOrigin makes [FromUI] use the header of trusted peers.
func TrustOrigin(trusted func(netip.Addr) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.Header.Values(OriginHeader)
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && len(values) == 1 && values[0] == originUI && trusted(peer.Addr()) {
			r = r.WithContext(context.WithValue(r.Context(), fromUIKey{}, true))
		}
		next.ServeHTTP(w, r)
	})
}

// FromUI reports whether the web app made the request for a person.
func FromUI(r *http.Request) bool { return r.Context().Value(fromUIKey{}) != nil }

// forwardedAddress walks X-Forwarded-For from its end as long as the writer of an entry is trusted,
// so that a caller cannot choose an address by sending the header. If a proxy wrote something other
// than an address, that proxy's own address is returned. ok is false if the peer is not trusted, or
// has sent no address.
func forwardedAddress(r *http.Request, trusted func(netip.Addr) bool) (address string, ok bool) {
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
			if hop == "" { // lists may have empty elements (RFC 9110, 5.6.1)
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

// parseHop parses an address, with an optional port as some proxies add it.
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

// UserAgent returns the User-Agent header, sanitized for storage.
func UserAgent(r *http.Request) string { return input.UserAgent(r.UserAgent()) }
