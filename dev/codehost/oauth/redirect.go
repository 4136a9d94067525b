package oauth

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strings"

	"svc/input"
)

var errRedirect = errors.New("want an absolute http or https URL without user, fragment and dots in its path")

// parseRedirect parses and validates a redirect URL.
func parseRedirect(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
		return nil, errRedirect // err would quote text, which may be anything
	case strings.ContainsAny(text, "#\\") || path.Clean("/"+u.Path) != "/"+strings.Trim(u.Path, "/"):
		return nil, errRedirect
	}
	return u, nil
}

// redirectAllowed reports whether an application with callback may redirect to u. u must have the same
// scheme and port, the same host or a subdomain, and the same path or one below it. On loopback the
// port may differ, because a program may not know its port beforehand.
func redirectAllowed(callback, u *url.URL) bool {
	own, other := input.Lower(callback.Hostname()), input.Lower(u.Hostname())
	sameHost := own == other && (Loopback(own) || callback.Port() == u.Port())
	below := strings.HasSuffix(other, "."+own) && callback.Port() == u.Port()
	root := strings.TrimSuffix(callback.Path, "/")
	return callback.Scheme == u.Scheme && (sameHost || below) &&
		(u.Path == root || strings.HasPrefix(u.Path, root+"/"))
}

// addParameters returns u with the parameters that are not empty.
func addParameters(u *url.URL, parameters map[string]string) string {
	c := *u
	query := c.Query()
	for name, value := range parameters {
		if value != "" {
			query.Set(name, value)
		}
	}
	c.RawQuery = query.Encode()
	return c.String()
}

// Loopback reports whether host, with or without a port, names this machine.
func Loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.Unmap().IsLoopback()
}
