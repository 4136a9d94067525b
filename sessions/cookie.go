package sessions

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// CookieName returns the name of the session cookie.
func (s *Store) CookieName() string { return s.name("session_token") }

// Cookie returns the session cookie to send to the browser.
func (s *Store) Cookie(session Session) *http.Cookie {
	value := url.QueryEscape(session.token + "." + s.sign(session.token))
	return s.cookie(s.CookieName(), value, int(math.Ceil(session.ExpiresAt.Sub(s.Now()).Seconds())))
}

// ExpiredCookie returns a cookie that makes the browser delete the session cookie.
func (s *Store) ExpiredCookie() *http.Cookie { return s.cookie(s.CookieName(), "", -1) }

// SetCookie sends the cookie of a session to the browser that sent r. Without remember, the
// cookie ends with the browser, and a second one says so to [Store.RenewCookie].
func (s *Store) SetCookie(w http.ResponseWriter, r *http.Request, session Session, remember bool) {
	cookie := s.Cookie(session)
	switch {
	case !remember:
		cookie.MaxAge = 0
		http.SetCookie(w, s.cookie(s.ForgetCookieName(), "true", 0))
	case s.forgets(r): // of an earlier session
		http.SetCookie(w, s.ExpiredForgetCookie())
	}
	http.SetCookie(w, cookie)
}

// RenewCookie sends the cookie again, after the session was extended. It ends with the browser
// if the one in r does.
func (s *Store) RenewCookie(w http.ResponseWriter, r *http.Request, session Session) {
	s.SetCookie(w, r, session, !s.forgets(r))
}

// forgets reports whether the session of r ends with the browser. Other applications set cookies of
// this name with other values.
func (s *Store) forgets(r *http.Request) bool {
	return slices.ContainsFunc(r.CookiesNamed(s.ForgetCookieName()), func(c *http.Cookie) bool { return c.Value == "true" })
}

// ForgetCookieName returns the name of the cookie which says that the session ends with the
// browser.
func (s *Store) ForgetCookieName() string { return s.name("dont_remember") }

// ExpiredForgetCookie returns a cookie that makes the browser delete that cookie.
func (s *Store) ExpiredForgetCookie() *http.Cookie { return s.cookie(s.ForgetCookieName(), "", -1) }

func (s *Store) name(of string) string {
	if s.Secure {
		return "__Secure-better-auth." + of
	}
	return "better-auth." + of
}

func (s *Store) cookie(name, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.Secure,
	}
}

func (s *Store) sign(token string) string {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte(token))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// verify returns the token of a cookie's value if its signature is right.
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
