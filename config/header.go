package config

import (
	"net/textproto"
	"regexp"
	"slices"
	"strings"
)

// A HeaderName is the name of a header that only our own proxy sets: letters, digits and
// hyphens, and no name that has a meaning already. Underscores are not allowed, because
// some servers treat them as hyphens.
type HeaderName string

var headerName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

// Names and prefixes of headers that mean something else to proxies or to our services.
var (
	takenHeaders = []string{
		"Accept", "Authorization", "Connection", "Cookie", "Expect", "Forwarded", "Host", "Idempotency-Key", "Origin", "Range", "Referer",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Via", "X-Real-Ip", "X-Request-Id", "X-Svc-Min-Position", "X-Svc-Tenant",
	}
	takenBeginnings = []string{"Accept-", "Access-", "Content-", "If-", "Keep-", "Proxy-", "Sec-", "X-Forwarded-"}
)

// UnmarshalText accepts a name without another meaning.
func (h *HeaderName) UnmarshalText(text []byte) error {
	name := textproto.CanonicalMIMEHeaderKey(string(text))
	if !headerName.Match(text) || slices.Contains(takenHeaders, name) ||
		slices.ContainsFunc(takenBeginnings, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
		return want("a header's name that has no other meaning, such as X-Svc-Client-Cert")
	}
	*h = HeaderName(name)
	return nil
}
