package auth_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// places are the request fields with redirect addresses.
var places = []struct{ path, field, code string }{
	{"/sign-in/social", "callbackURL", "INVALID_CALLBACK_URL"},
	{"/sign-in/social", "errorCallbackURL", "INVALID_ERROR_CALLBACK_URL"},
	{"/sign-in/social", "newUserCallbackURL", "INVALID_NEW_USER_CALLBACK_URL"},
	{"/sign-in/email", "callbackURL", "INVALID_CALLBACK_URL"},
}

func placeBody(path, field, place string) string {
	if path == "/sign-in/email" {
		return fieldsOf("email", email, "password", password, field, place)
	}
	return fieldsOf("provider", "github", field, place)
}

func TestForeignRedirectsAreRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	port := s.url[strings.LastIndexByte(s.url, ':'):]
	for what, place := range map[string]string{
		"another site":                       "https://evil.example",
		"another site of the same scheme":    "http://evil.example/inbox",
		"without a scheme":                   "//evil.example",
		"three slashes":                      "///evil.example",
		"two slashes alone":                  "//",
		"two slashes and a query":            "//?evil",
		"a slash and a backslash":            "/\\evil.example",
		"a backslash and a slash":            "\\/evil.example",
		"two backslashes":                    "\\\\evil.example",
		"a backslash further on":             "/a\\evil.example",
		"a backslash after the origin":       s.url + "\\@evil.example",
		"a script":                           "javascript:alert(1)",
		"a script in capitals":               "JavaScript:alert(1)",
		"a script with a slash":              "javascript:/alert(1)",
		"a script with a host":               "javascript://127.0.0.1" + port + "/%0aalert(1)",
		"data":                               "data:text/html,x",
		"a blob of the origin":               "blob:" + s.url + "/x",
		"a page's source":                    "view-source:" + s.url,
		"the origin as a person":             s.url + "@evil.example",
		"the origin as a person and word":    "http://127.0.0.1:x@evil.example",
		"a person at the origin":             "http://evil.example@127.0.0.1" + port,
		"nobody at the origin":               "http://@127.0.0.1" + port,
		"the origin as the beginning":        "http://127.0.0.1.evil.example" + port,
		"the origin and a letter":            s.url + "x",
		"the origin and a digit":             s.url + "0/",
		"another port":                       "http://127.0.0.1:1/inbox",
		"no port":                            "http://127.0.0.1/inbox",
		"another scheme":                     "https://127.0.0.1" + port + "/inbox",
		"a web socket":                       "ws://127.0.0.1" + port + "/inbox",
		"another name of the origin":         "http://localhost" + port + "/inbox",
		"the origin with a final dot":        "http://127.0.0.1." + port + "/inbox",
		"the origin after another":           "http://evil.example/" + s.url,
		"an escaped tab":                     "/%09/evil.example",
		"a tab":                              "/\t/evil.example",
		"an escaped backslash":               "/%5Cevil.example",
		"an escaped backslash, small":        "/%5cevil.example",
		"an escaped slash":                   "/%2Fevil.example",
		"an escaped slash, small":            "/%2f/evil.example",
		"an escaped line break":              "/%0d%0aSet-Cookie:x=y",
		"a line break":                       "/\nevil.example",
		"a carriage return":                  "/inbox\r\nSet-Cookie: x=y",
		"a line break inside the slashes":    "/\n/evil.example",
		"a control character":                "/\x01/evil.example",
		"a control character at the front":   "\x01//evil.example",
		"an escape that is none":             "/%zz",
		"no host":                            "http:///evil.example",
		"no slashes":                         "http:evil.example",
		"one slash":                          "http:/evil.example",
		"a place below the present one":      "evil",
		"a place below, in many ways":        ".//evil.example",
		"a place above":                      "../evil",
		"a query alone":                      "?next=//evil.example",
		"a fragment alone":                   "#top",
		"a space at the front":               " //evil.example",
		"a space in front of another scheme": " https://evil.example",
		"the path of another site":           "http://127.0.0.1" + port + "//evil.example",
	} {
		for _, p := range places {
			t.Run(what+", "+p.path+" "+p.field, func(t *testing.T) {
				a := s.do(call{path: p.path, body: placeBody(p.path, p.field, place)})
				a.requireRefused(403, p.code)
				require.Empty(t, a.Header.Get("Location"))
				require.NotContains(t, a.text, "evil")
			})
		}
	}
	require.Zero(t, s.count("oauth_states"))
	require.Zero(t, s.count("sessions"))
}

func TestForeignRedirectInFormIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	form := url.Values{"email": {email}, "password": {password}, "callbackURL": {"//evil.example"}}.Encode()
	a := s.do(call{path: "/sign-in/email", media: "application/x-www-form-urlencoded", body: form})
	a.requireRefused(403, "INVALID_CALLBACK_URL")
}

func TestOwnRedirectsAreFollowed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	for _, place := range []string{
		"/", "/inbox", "/w/ada/runs?status=failed&page=2", "/inbox#top", "/a%20b", "/caf%C3%A9", "/search?q=//evil.example",
		"/search?next=https%3A%2F%2Fevil.example", "/@ada", "/a:b", "/inbox/", s.url, s.url + "/", s.url + "/inbox?tab=1#top",
	} {
		t.Run(place, func(t *testing.T) {
			for _, p := range places {
				a := s.do(call{path: p.path, body: placeBody(p.path, p.field, place)})
				require.Equal(t, http.StatusOK, a.StatusCode, "%s %s: %s", p.path, p.field, a.text)
			}
			a := s.do(call{path: "/sign-in/email", body: placeBody("/sign-in/email", "callbackURL", place)})
			require.Equal(t, place, a.Header.Get("Location"))
			s.browser().signIn(h, "callbackURL", place, "newUserCallbackURL", place).requireSentTo(place)
		})
	}
}

// An empty address is treated as absent.
func TestRedirectDefaultsToStart(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	s.browser().signIn(h).requireSentTo("/")
	s.browser().signIn(h, "callbackURL", "", "newUserCallbackURL", "").requireSentTo("/")
}
