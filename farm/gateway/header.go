package gateway

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"

	"svc/config"
)

// maxCertificate is the longest header value that the REST service accepts.
const maxCertificate = 16 << 10

// setCertificate replaces the header, whichever equivalent names the client has used, by the
// certificate of the connection, if it has one.
func setCertificate(h http.Header, name config.HeaderName, connection *tls.ConnectionState) {
	for key := range h {
		if normalizeName(key) == normalizeName(string(name)) {
			delete(h, key)
		}
	}
	if connection == nil || len(connection.PeerCertificates) == 0 {
		return
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: connection.PeerCertificates[0].Raw})
	if escaped := url.PathEscape(string(text)); len(escaped) <= maxCertificate {
		h.Set(string(name), escaped)
	}
}

// normalizeName maps header names that some server treats as the same to one string. In CGI
// variables everything except letters and digits becomes an underscore.
func normalizeName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// dropUpgrade removes the headers that ask for another protocol, unless it is a WebSocket and the rule
// allows one. On a connection with another protocol, requests would bypass the rules.
func dropUpgrade(r *http.Request, tunnel bool) {
	protocols := r.Header.Values("Upgrade")
	if tunnel && len(protocols) == 1 && strings.EqualFold(protocols[0], "websocket") {
		return
	}
	r.Header.Del("Upgrade")
	r.Header.Del("Http2-Settings")
}
