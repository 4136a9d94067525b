package auth_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/auth"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.do(call{path: "/sign-in/email", body: signInBody(email, password)})
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Equal(t, "application/json", a.Header.Get("Content-Type"))
	require.Equal(t, "no-store", a.Header.Get("Cache-Control"))

	cookie := a.cookie()
	require.Equal(t, "better-auth.session_token="+cookie.Value+"; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax", cookie.Raw)

	var body struct {
		Redirect *bool          `json:"redirect"`
		Token    string         `json:"token"`
		User     map[string]any `json:"user"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.text), &body))
	require.False(t, *body.Redirect)
	seen := s.session(cookie)
	require.Equal(t, seen["session"]["token"], body.Token)
	require.Equal(t, seen["user"], body.User)
	require.Equal(t, s.person.String(), body.User["id"])
}

func TestSignInAcceptsVariants(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	form := url.Values{"email": {email}, "password": {password}}.Encode()
	for name, c := range map[string]call{
		"a form":                       {media: "application/x-www-form-urlencoded", body: form},
		"JSON with its charset":        {media: "application/json; charset=utf-8", body: signInBody(email, password)},
		"JSON in capitals":             {media: "Application/JSON", body: signInBody(email, password)},
		"an address in capitals":       {body: signInBody("ZOE@acme.example", password)},
		"what the client adds":         {body: `{"email":"` + email + `","password":"` + password + `","callbackURL":"/","rememberMe":true}`},
		"fields that nobody knows":     {body: `{"email":"` + email + `","password":"` + password + `","captcha":7}`},
		"space around the JSON":        {body: "\n" + signInBody(email, password) + "\n"},
		"a request of the same site":   {body: signInBody(email, password), header: map[string]string{"Sec-Fetch-Site": "same-origin"}},
		"a request of the same origin": {body: signInBody(email, password), header: map[string]string{"Origin": s.url}},
	} {
		t.Run(name, func(t *testing.T) {
			c.path = "/sign-in/email"
			a := s.do(c)
			require.Equal(t, http.StatusOK, a.StatusCode, a.text)
			require.NotNil(t, s.session(a.cookie()))
		})
	}
}

// The answer does not reveal which addresses exist.
func TestSignInRefusesWrongAndUnknownAlike(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	wrong := s.do(call{path: "/sign-in/email", body: signInBody(email, "Correct horse")})
	wrong.requireRefused(401, "INVALID_EMAIL_OR_PASSWORD")
	unknown := s.do(call{path: "/sign-in/email", body: signInBody("nobody@acme.example", password)})
	unknown.requireRefused(401, "INVALID_EMAIL_OR_PASSWORD")
	require.Equal(t, wrong.text, unknown.text)
	for _, h := range []http.Header{wrong.Header, unknown.Header} {
		h.Del("Date")
		h.Del("X-Request-Id")
	}
	require.Equal(t, wrong.Header, unknown.Header)
}

func TestSignInRefusesInvalidInput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const form = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		media, body string
		status      int
		code        string
	}{
		"half of the JSON":         {"", `{"email":"` + email, 400, "BAD_REQUEST"},
		"no JSON":                  {"", `email=` + email, 400, "BAD_REQUEST"},
		"more than the JSON":       {"", signInBody(email, password) + "x", 400, "BAD_REQUEST"},
		"JSON twice":               {"", signInBody(email, password) + signInBody(email, password), 400, "BAD_REQUEST"},
		"spaces":                   {"", "  ", 400, "BAD_REQUEST"},
		"an escape that is none":   {form, "email=%zz", 400, "BAD_REQUEST"},
		"null":                     {"", `null`, 400, "VALIDATION_ERROR"},
		"a list":                   {"", `[]`, 400, "VALIDATION_ERROR"},
		"a number for the address": {"", `{"email":7,"password":"x"}`, 400, "VALIDATION_ERROR"},
		"a word for true":          {"", `{"email":"` + email + `","password":"x","rememberMe":"yes"}`, 400, "VALIDATION_ERROR"},
		"nothing in it":            {"", `{}`, 400, "VALIDATION_ERROR"},
		"null for the address":     {"", `{"email":null,"password":"x"}`, 400, "VALIDATION_ERROR"},
		"null for where to go": {"", `{"email":"` + email + `","password":"` + password + `","callbackURL":null}`, 400,
			"VALIDATION_ERROR"},
		"no password":                 {"", `{"email":"` + email + `"}`, 400, "VALIDATION_ERROR"},
		"no address":                  {"", `{"password":"x"}`, 400, "VALIDATION_ERROR"},
		"a password that is too long": {"", signInBody(email, strings.Repeat("x", 73)), 401, "INVALID_EMAIL_OR_PASSWORD"},
		"an address that is too long": {"", signInBody(strings.Repeat("x", 320)+"@acme.example", "x"), 400, "INVALID_EMAIL"},
		"a NUL in the address":        {"", `{"email":"zoe\u0000@acme.example","password":"x"}`, 400, "VALIDATION_ERROR"},
		"a NUL in a form's address":   {form, "email=zoe%00@acme.example&password=x", 400, "INVALID_EMAIL"},
		"half of a character":         {"", `{"email":"` + email + `","password":"\ud800"}`, 400, "VALIDATION_ERROR"},
		"an address without a site":   {"", signInBody("zoe", "x"), 400, "INVALID_EMAIL"},
		"an address with a name":      {"", signInBody("Zoë <zoe@acme.example>", "x"), 400, "INVALID_EMAIL"},
		"a space in the address":      {"", signInBody("zo e@acme.example", "x"), 400, "INVALID_EMAIL"},
		"two addresses":               {"", signInBody(email+","+email, "x"), 400, "INVALID_EMAIL"},
		"a form that is not UTF-8":    {form, "email=%ff@acme.example&password=x", 400, "INVALID_EMAIL"},
		"plain text":                  {"text/plain", signInBody(email, password), 415, "UNSUPPORTED_MEDIA_TYPE"},
		"a form in parts":             {"multipart/form-data; boundary=x", "--x--", 415, "UNSUPPORTED_MEDIA_TYPE"},
		"more than 8 KiB":             {"", signInBody(email, strings.Repeat("x", 8<<10)), 413, "body_too_large"},
		"hundreds of fields":          {"", "{" + strings.Repeat(`"x":0,`, 200) + signInBody(email, password)[1:], 400, "VALIDATION_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.do(call{path: "/sign-in/email", media: c.media, body: c.body}).requireRefused(c.status, c.code)
		})
	}
}

func TestSignInNamesInvalidField(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for body, field := range map[string]string{
		`{"password":"x"}`:                   "email",
		`{"email":"` + email + `"}`:          "password",
		`{"email":[],"password":"x"}`:        "email",
		`{"email":"x","password":{"a":"b"}}`: "password",
		`"zoe"`:                              "body",
	} {
		a := s.do(call{path: "/sign-in/email", body: body})
		var answer struct {
			Details map[string][]string `json:"details"`
		}
		require.NoError(t, json.Unmarshal([]byte(a.text), &answer), a.text)
		require.Len(t, answer.Details, 1)
		require.NotEmpty(t, answer.Details[field], a.text)
	}
}

// JSON and forms both refuse a NUL in a password.
func TestNULInPasswordIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.do(call{path: "/sign-in/email", body: signInBody(email, password+"\x00")}).requireRefused(400, "VALIDATION_ERROR")
	form := url.Values{"email": {email}, "password": {password + "\x00"}}.Encode()
	s.do(call{path: "/sign-in/email", media: "application/x-www-form-urlencoded", body: form}).requireRefused(401, "INVALID_EMAIL_OR_PASSWORD")
}

func TestSignInIsOffInProduction(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *auth.Config) { s.DevSignIn = false })
	for _, body := range []string{signInBody(email, password), signInBody(email, "wrong"), "{"} {
		s.do(call{path: "/sign-in/email", body: body}).requireRefused(400, "EMAIL_PASSWORD_DISABLED")
	}
}

func TestSignInIsLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t, withLimit(t, 3))
	cookie := s.signIn()
	for range 2 {
		s.do(call{path: "/sign-in/email", body: "{"}).requireRefused(400, "BAD_REQUEST")
	}
	a := s.do(call{path: "/sign-in/email", body: signInBody(email, password)})
	a.requireRefused(429, "rate_limited")
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.Positive(t, seconds)
	require.LessOrEqual(t, seconds, 20)
	require.Equal(t, "3", a.Header.Get("RateLimit-Limit"))
	require.Equal(t, "0", a.Header.Get("RateLimit-Remaining"))

	for range 20 {
		require.NotNil(t, s.session(cookie), "who is signed in stays so")
	}
	require.Equal(t, http.StatusOK, s.do(call{path: "/sign-out", body: "{}", cookie: cookie}).StatusCode)
}

// The limit applies even if password sign-in is disabled.
func TestDisabledSignInIsLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t, withLimit(t, 1), func(s *auth.Config) { s.DevSignIn = false })
	s.do(call{path: "/sign-in/email", body: "{}"}).requireRefused(400, "EMAIL_PASSWORD_DISABLED")
	s.do(call{path: "/sign-in/email", body: "{}"}).requireRefused(429, "rate_limited")
}
