package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// A URL is an absolute URL that prints without its secrets: the password, a
// lone user name (a token in every scheme but PostgreSQL's) and the values of
// query parameters whose name sounds like a secret read [redacted].
//
// The zero URL is one that was not set.
type URL struct {
	// Two pointers away, because fmt follows the first one of an unexported
	// field, in which it can call no method.
	u **url.URL
}

// ParseURL reads an absolute URL. Its error does not quote text.
func ParseURL(text string) (URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "" || u.Opaque != "" || !strings.Contains(text, "://"):
		return URL{}, want("an absolute URL such as scheme://host/path")
	case u.Host == "" && !postgres(u): // PostgreSQL's may name a socket in its query
		return URL{}, want("a URL with a host")
	case strings.Contains(u.EscapedPath()+u.RawQuery, "@") || strings.Contains(text, "#"):
		// The rest of a password that was cut at a / ? or # of its own.
		return URL{}, want("/ ? # and @ in a password written as %2F %3F %23 and %40")
	}
	return URL{&u}, nil
}

// IsZero reports whether u was not set.
func (u URL) IsZero() bool { return u.u == nil }

// URL returns a copy of the whole URL, secrets included, or nil if u was not
// set. Mind that its %v shows the password.
func (u URL) URL() *url.URL {
	if u.u == nil {
		return nil
	}
	c := **u.u
	return &c
}

// Reveal returns the whole URL as text, secrets included.
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

// redactQuery keeps the order and spelling of what it need not hide.
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

// soundsSecret rather hides the path in sslkey than shows an api_key.
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

// Format writes the URL without its secrets, whatever the verb.
func (u URL) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, u.String()) }

// LogValue returns the URL without its secrets.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText returns the URL without its secrets.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads an absolute URL as [ParseURL] does.
func (u *URL) UnmarshalText(text []byte) (err error) {
	*u, err = ParseURL(string(text))
	return err
}
