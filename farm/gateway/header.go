package gateway

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"

	"svc/config"
)

// The REST service takes no more.
const maxCertificate = 16 << 10

// setCertificate puts the certificate of the connection, or none, in the place of whatever
// the client wrote there.
func setCertificate(h http.Header, name config.HeaderName, connection *tls.ConnectionState) {
	for spelling := range h {
		if plain(spelling) == plain(string(name)) {
			delete(h, spelling)
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

// plain is the same for names that some server takes for the same: in a CGI variable
// all that is no letter or digit becomes an underscore.
func plain(name string) string {
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

// keepUpgrade leaves a request its wish for another protocol only if that is a WebSocket,
// where there is one: whoever speaks another past the rules could ask for any path.
func keepUpgrade(r *http.Request, tunnel bool) {
	wishes := r.Header.Values("Upgrade")
	if tunnel && len(wishes) == 1 && strings.EqualFold(wishes[0], "websocket") {
		return
	}
	r.Header.Del("Upgrade")
	r.Header.Del("Http2-Settings")
}
