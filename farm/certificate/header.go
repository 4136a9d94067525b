package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// MaxText limits the header with a certificate, and a certificate request, in bytes.
const MaxText = 16 << 10

// Errors of [FromHeader], beside those of [Parse].
var (
	ErrMissing  = errors.New("no certificate")
	ErrRepeated = errors.New("the header is there more than once")
)

// FromHeader parses the values of the header in which a gateway forwards a certificate, as
// URL-encoded PEM. It does not verify the certificate; see [Verify].
func FromHeader(values []string) (*x509.Certificate, error) {
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return nil, ErrMissing
	case len(values) > 1:
		return nil, ErrRepeated
	case len(values[0]) > MaxText:
		return nil, ErrTooLarge
	}
	text, err := unescape(values[0])
	if err != nil {
		return nil, fmt.Errorf("%w: bad escape", ErrUnreadable)
	}
	return Parse(text)
}

// unescape URL-decodes text. A plus sign is a base64 digit, unless the gateway has encoded spaces
// as plus signs.
func unescape(text string) (string, error) {
	if strings.Contains(text, "BEGIN+CERTIFICATE") {
		return url.QueryUnescape(text)
	}
	return url.PathUnescape(text)
}

// decodePEM returns the content of a text that is one PEM block.
func decodePEM(text, kind string) ([]byte, error) {
	switch {
	case len(text) > MaxText:
		return nil, ErrTooLarge
	case !strings.HasPrefix(text, "-----BEGIN "+kind+"-----"):
		return nil, fmt.Errorf("%w: it does not begin with a %s block", ErrUnreadable, kind)
	}
	b, rest := pem.Decode([]byte(text))
	switch {
	case b == nil || b.Type != kind:
		return nil, fmt.Errorf("%w: no PEM block", ErrUnreadable)
	case len(b.Headers) > 0:
		return nil, fmt.Errorf("%w: it has PEM headers", ErrUnreadable)
	case strings.Trim(string(rest), "\r\n") != "":
		return nil, ErrExtra
	}
	return b.Bytes, nil
}
