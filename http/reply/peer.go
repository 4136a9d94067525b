package reply

import (
	"net"
	"net/http"
	"strings"
)

// maxUserAgent is how many characters of it are kept.
const maxUserAgent = 256

// Address returns the IP address that the request came from.
func Address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// UserAgent returns what the caller says of itself, made fit to be kept.
func UserAgent(r *http.Request) string {
	s := strings.ToValidUTF8(Redact(r.UserAgent()), "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if runes := []rune(s); len(runes) > maxUserAgent {
		return string(runes[:maxUserAgent])
	}
	return s
}
