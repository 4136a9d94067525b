package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// A URL is an absolute URL that is printed without its secrets: the password, a user name
// without a password (a token, except in PostgreSQL URLs) and the values of query
// parameters whose names suggest a secret are printed as [redacted].
//
// The zero URL is unset.
type URL struct {
	// Two pointers, because fmt follows the first pointer in an unexported field, whose
	// methods it cannot call.
	u **url.URL
}

// ParseURL parses an absolute URL. Its error does not quote text.
func ParseURL(text string) (URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "" || u.Opaque != "" || !strings.Contains(text, "://"):
		return URL{}, want("an absolute URL such as scheme://host/path")
	case u.Host == "" && !postgres(u): // a PostgreSQL URL may name a socket in its query
		return URL{}, want("a URL with a host")
	case strings.Contains(u.EscapedPath()+u.RawQuery, "@") || strings.Contains(text, "#"):
		// A password with an unescaped / ? or # was cut there, and this is its rest.
		return URL{}, want("/ ? # and @ in a password written as %2F %3F %23 and %40")
	}
	return URL{&u}, nil
}

// IsZero reports whether u is unset.
func (u URL) IsZero() bool { return u.u == nil }

// IsOrigin reports whether u is set and is a scheme and a host alone, perhaps with a slash at the end.
func (u URL) IsOrigin() bool {
	c := u.URL()
	return c != nil && c.User == nil && (c.Path == "" || c.Path == "/") && c.RawQuery == ""
}

// URL returns a copy of the whole URL, secrets included, or nil if u is unset. Its %v shows
// the password.
func (u URL) URL() *url.URL {
	if u.u == nil {
		return nil
	}
	c := **u.u
	return &c
}

// Reveal returns the whole URL as a string, secrets included.
func (u URL) Reveal() string {
	if u.u == nil {
		return ""
	}
	return (*u.u).String()
}

// String returns the URL without its secrets.
func (u URL) String() string {
	if u.u == nil {
		return ""
	}
	c := u.URL()
	c.RawQuery = redactQuery(c.RawQuery)
	const mark = "redacted"
	if _, has := c.User.Password(); has {
		c.User = url.UserPassword(c.User.Username(), mark)
		return strings.Replace(c.String(), ":"+mark+"@", ":"+redacted+"@", 1)
	}
	if c.User != nil && !postgres(c) {
		c.User = url.User(mark)
		return strings.Replace(c.String(), "//"+mark+"@", "//"+redacted+"@", 1)
	}
	return c.String()
}

func postgres(u *url.URL) bool { return u.Scheme == "postgres" || u.Scheme == "postgresql" }

// redactQuery keeps the order and spelling of everything else.
func redactQuery(raw string) string {
	if raw == "" {
		return ""
	}
	pairs := strings.Split(raw, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err != nil || soundsSecret(plain) {
			pairs[i] = name + "=" + redacted
		}
	}
	return strings.Join(pairs, "&")
}

// soundsSecret errs on the side of hiding: it hides the path in sslkey too.
func soundsSecret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "pwd", "secret", "token", "key", "credential", "signature"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// GoString returns the URL without its secrets.
func (u URL) GoString() string { return u.String() }

// Format writes the URL without its secrets for every verb.
func (u URL) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, u.String()) }

// LogValue returns the URL without its secrets.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText returns the URL without its secrets.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText parses an absolute URL as [ParseURL] does.
func (u *URL) UnmarshalText(text []byte) (err error) {
	*u, err = ParseURL(string(text))
	return err
}
