package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// MaxText is how many bytes the header with a certificate, or a request for one, may have.
const MaxText = 16 << 10

// Why a header has no certificate.
var (
	ErrMissing  = errors.New("no certificate")
	ErrRepeated = errors.New("the header is there more than once")
)

// FromHeader reads the values of the header in which a gateway forwards a certificate, as
// URL-encoded PEM. It is not yet known whether anybody vouches for it.
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

// unescape takes a plus sign for what it is, a digit of base64, unless the gateway has
// written spaces so.
func unescape(text string) (string, error) {
	if strings.Contains(text, "BEGIN+CERTIFICATE") {
		return url.QueryUnescape(text)
	}
	return url.PathUnescape(text)
}

// block returns what is in the only PEM block of a text.
func block(text, kind string) ([]byte, error) {
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
