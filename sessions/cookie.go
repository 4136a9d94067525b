package sessions

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"net/http"
	"net/url"
	"strings"
)

// CookieName returns the name of the session's cookie.
func (s *Store) CookieName() string {
	if s.Secure {
		return "__Secure-better-auth.session_token"
	}
	return "better-auth.session_token"
}

// Cookie returns the cookie that carries a session to the browser.
func (s *Store) Cookie(session Session) *http.Cookie {
	value := url.QueryEscape(session.token + "." + s.sign(session.token))
	return s.cookie(value, int(math.Ceil(session.ExpiresAt.Sub(s.Now()).Seconds())))
}

// NoCookie returns the cookie that takes the session from the browser.
func (s *Store) NoCookie() *http.Cookie { return s.cookie("", -1) }

func (s *Store) cookie(value string, maxAge int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure is on wherever the site is https
		Name: s.CookieName(), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.Secure,
	}
}

func (s *Store) sign(token string) string {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte(token))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// verify returns the token of a cookie's value if its signature is ours.
func (s *Store) verify(cookie string) (token string, ok bool) {
	value, err := url.PathUnescape(cookie)
	if err != nil {
		return "", false
	}
	dot := strings.LastIndexByte(value, '.')
	if dot < 0 {
		return "", false
	}
	token = value[:dot]
	return token, hmac.Equal([]byte(value[dot+1:]), []byte(s.sign(token)))
}
