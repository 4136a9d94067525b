package input

import (
	"net/url"
	"regexp"
	"strings"
)

const maxPicture = 2000 // bytes

var printable = regexp.MustCompile(`^[!-~]*$`)

// PictureURL returns the normalized URL of a picture, or "" if a page could not show it.
func PictureURL(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return ""
	}
	if address = u.String(); len(address) > maxPicture || !printable.MatchString(address) || URLHasToken(u) {
		return ""
	}
	return address
}

// URLHasToken reports whether a URL contains a token, escaped or not.
func URLHasToken(u *url.URL) bool {
	whole, _ := url.QueryUnescape(u.RawQuery) // if it has an invalid escape, the checks below see it unescaped
	return HasToken(u.String()) || HasToken(u.Path) || HasToken(u.Fragment) || HasToken(whole)
}

// Origin returns scheme, host and port of a URL as browsers write them: A–Z in lower case,
// without the scheme's default port.
func Origin(u *url.URL) string {
	host := strings.TrimSuffix(Lower(u.Host), ":")
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; port != "" {
		host = strings.TrimSuffix(host, port)
	}
	return u.Scheme + "://" + host
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._:/+=-]{1,128}$`)

// RequestID reports whether a request id that the caller sent may be used.
func RequestID(id string) bool { return requestID.MatchString(id) && !HasToken(id) }
