package sessions

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCookieAttributes(t *testing.T) {
	for name, c := range map[string]struct {
		secure bool
		cookie string
		gone   string
	}{
		"on http": {
			secure: false,
			cookie: "better-auth.session_token=VALUE; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax",
			gone:   "better-auth.session_token=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax",
		},
		"on https": {
			secure: true,
			cookie: "__Secure-better-auth.session_token=VALUE; Path=/; Max-Age=604800; HttpOnly; Secure; SameSite=Lax",
			gone:   "__Secure-better-auth.session_token=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Store{Secret: []byte("secret"), Secure: c.secure, Now: func() time.Time { return noon }}
			cookie := s.Cookie(Session{token: "token", ExpiresAt: noon.Add(lifetime)})
			require.NoError(t, cookie.Valid())
			require.Equal(t, s.CookieName(), cookie.Name)
			require.Equal(t, c.cookie, strings.Replace(cookie.String(), cookie.Value, "VALUE", 1))
			require.Equal(t, c.gone, s.ExpiredCookie().String())
		})
	}
}

// Some milliseconds pass between the start of a session and its cookie.
func TestCookieLastsSevenDaysToTheSecond(t *testing.T) {
	s := &Store{Secret: []byte("secret"), Now: func() time.Time { return noon.Add(40 * time.Millisecond) }}
	require.Equal(t, 604800, s.Cookie(Session{token: "token", ExpiresAt: noon.Add(lifetime)}).MaxAge)
}

// The value has the form of the Better Auth project: the token, a dot and the base64 of its
// HMAC-SHA256, percent-encoded.
func TestCookieValue(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	token, signature, ok := strings.Cut(plain(t, s.cookie), ".")
	require.True(t, ok)
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte(token))
	require.Equal(t, base64.StdEncoding.EncodeToString(mac.Sum(nil)), signature)
	require.NotContains(t, s.cookie, "=", "it is escaped")
	require.NotContains(t, s.cookie, " ")
}

func TestCookieComesBackFromABrowser(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	r, err := http.NewRequest(http.MethodGet, "http://svc.example/", nil)
	require.NoError(t, err)
	r.AddCookie(s.Cookie(s.session))
	back, err := r.Cookie(s.CookieName())
	require.NoError(t, err)
	s.requireFound(t, back.Value)
}

// Another application may have set a cookie of the name for a parent domain.
func TestCookieIsFoundAmongOthers(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	stale := s.Cookie(Session{token: "ended", ExpiresAt: noon}).Value
	for _, value := range []string{"another", stale, s.cookie, "another.c2lnbmVk"} {
		r.AddCookie(&http.Cookie{Name: s.CookieName(), Value: value})
	}
	found, _, ok, err := s.FindIn(r)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, s.session.ID, found.ID)
	r.Header.Del("Cookie")
	for range maxCookies {
		r.AddCookie(&http.Cookie{Name: s.CookieName(), Value: "another"})
	}
	r.AddCookie(s.Cookie(s.session))
	_, _, ok, err = s.FindIn(r)
	require.NoError(t, err)
	require.False(t, ok, "so many are not tried")
}

func TestCookieThatIsNotOursLeadsNowhere(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	token, signature, _ := strings.Cut(plain(t, s.cookie), ".")
	other := &Store{Secret: []byte("another secret of thirty-two chars"), Now: s.Now}
	for name, value := range map[string]string{
		"nothing":                       "",
		"a dot":                         ".",
		"no dot":                        token,
		"no signature":                  token + ".",
		"no token":                      "." + signature,
		"the signature of no token":     "." + s.sign(""),
		"a tampered signature":          token + "." + tampered(signature),
		"a shortened signature":         token + "." + signature[:len(signature)-1],
		"a longer signature":            token + "." + signature + "A",
		"a signature in another base64": token + "." + strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(signature),
		"a tampered token":              tampered(token) + "." + signature,
		"a shortened token":             token[:len(token)-1] + "." + signature,
		"a signature in the token":      token + "." + signature + "." + signature,
		"the hash in the token's place": tokenHash(token) + "." + s.sign(tokenHash(token)),
		"a token nobody was given":      "unknown." + s.sign("unknown"),
		"signed with another secret":    token + "." + other.sign(token),
		"the session's id":              s.session.ID.String() + "." + s.sign(s.session.ID.String()),
		"a NUL":                         token + "\x00." + signature,
	} {
		t.Run(name, func(t *testing.T) {
			s.requireNone(t, url.QueryEscape(value))
			s.requireNone(t, value)
		})
	}
	t.Run("an escape that is none", func(t *testing.T) { s.requireNone(t, s.cookie+"%zz") })
	s.requireFound(t, s.cookie)
}

func TestAnotherSecretSignsEverybodyOut(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	s.Secret = []byte("another secret of thirty-two chars")
	s.requireNone(t, s.cookie)
}

// tampered returns s with another first character.
func tampered(s string) string {
	if s[0] == 'A' {
		return "B" + s[1:]
	}
	return "A" + s[1:]
}

func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func TestRenewedCookieLastsAsLongAsBefore(t *testing.T) {
	s := &Store{Secret: []byte("secret"), Now: func() time.Time { return noon }}
	session := Session{token: "token", ExpiresAt: noon.Add(lifetime)}
	forget := &http.Cookie{Name: s.ForgetCookieName(), Value: "true"}
	sent := func(send func(http.ResponseWriter, *http.Request), cookies ...*http.Cookie) (maxAges map[string]int) {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		for _, c := range cookies {
			r.AddCookie(c)
		}
		send(w, r)
		maxAges = map[string]int{}
		for _, c := range w.Result().Cookies() {
			maxAges[strings.TrimPrefix(c.Name, "better-auth.")] = c.MaxAge
		}
		return maxAges
	}
	renew := func(w http.ResponseWriter, r *http.Request) { s.RenewCookie(w, r, session) }
	signIn := func(w http.ResponseWriter, r *http.Request) { s.SetCookie(w, r, session, true) }
	require.Equal(t, map[string]int{"session_token": 604800}, sent(renew))
	require.Equal(t, map[string]int{"session_token": 0, "dont_remember": 0}, sent(renew, forget))
	foreign := &http.Cookie{Name: forget.Name, Value: "true.c2lnbmVk"}
	require.Equal(t, map[string]int{"session_token": 604800}, sent(renew, foreign), "of another application")
	require.Equal(t, map[string]int{"session_token": 604800, "dont_remember": -1}, sent(signIn, forget), "of an earlier session")
}
