package input

import (
	"net/url"
	"regexp"
	"strings"
)

const maxPicture = 2000 // bytes

var printable = regexp.MustCompile(`^[!-~]*$`)

// Picture returns the address of a picture, or "" if it is none that a page could
// show.
func Picture(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return ""
	}
	if address = u.String(); len(address) > maxPicture || !printable.MatchString(address) || AddressHasToken(u) {
		return ""
	}
	return address
}

// AddressHasToken reports whether an address holds a token, written as it is or
// escaped.
func AddressHasToken(u *url.URL) bool {
	whole, _ := url.QueryUnescape(u.RawQuery) // one with another escape is looked at as it is written
	return HasToken(u.String()) || HasToken(u.Path) || HasToken(u.Fragment) || HasToken(whole)
}

// Origin returns scheme, host and port of an address as browsers write them: A–Z
// lowered, without the port that the scheme has anyway.
func Origin(u *url.URL) string {
	host := strings.TrimSuffix(Lower(u.Host), ":")
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; port != "" {
		host = strings.TrimSuffix(host, port)
	}
	return u.Scheme + "://" + host
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._:/+=-]{1,128}$`)

// RequestID reports whether a caller's own id of a request can be kept.
func RequestID(id string) bool { return requestID.MatchString(id) && !HasToken(id) }
