package auth_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/auth"
)

func TestErrorPageExplainsErrors(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for code, parts := range map[string][]string{
		"access_denied":            {"You did not allow the sign-in.", "try again"},
		"state_mismatch":           {"another window", "too long ago", "Start again."},
		"state_not_found":          {"no state", "Start again."},
		"invalid_code":             {"did not accept", "could not be reached", "request id"},
		"unable_to_get_user_info":  {"did not return your profile", "in a few minutes"},
		"email_not_found":          {"no verified e-mail address", "Verify an address"},
		"invalid_scope":            {"more permissions than requested", "not used"},
		"account_not_linked":       {"belongs to another person", "the same way as before"},
		"oauth_provider_not_found": {"no such provider"},
		"rate_limited":             {"too often today", "after midnight UTC"},
		"redirect_uri_mismatch":    {"The redirect_uri is not associated with this application.", "AUTH_URL", "callback registered"},
		"internal_server_error":    {"Something went wrong.", "request id"},
		"never_heard_of":           {"Something went wrong."},
		"":                         {"Something went wrong."},
	} {
		t.Run(code, func(t *testing.T) {
			a := s.do(call{path: "/error?" + reason(code).Encode()})
			require.Equal(t, http.StatusOK, a.StatusCode)
			require.Equal(t, "text/html; charset=utf-8", a.Header.Get("Content-Type"))
			require.Equal(t, "no-store", a.Header.Get("Cache-Control"))
			require.Equal(t, "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
				a.Header.Get("Content-Security-Policy"))
			require.Contains(t, a.text, a.Header.Get("X-Request-Id"))
			require.Contains(t, a.text, "Reason "+code)
			for _, part := range parts {
				require.Contains(t, a.text, part)
			}
		})
	}
	style := s.do(call{path: "/error.css"})
	require.Equal(t, "text/css; charset=utf-8", style.Header.Get("Content-Type"))
	require.Equal(t, http.StatusOK, style.StatusCode)
}

var tag = regexp.MustCompile(`<[^>]*>`)

// The query is untrusted text and must be escaped.
func TestErrorPageEscapesText(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tags := func(text string) string { return strings.Join(tag.FindAllString(text, -1), "") }
	plain := tags(s.do(call{path: "/error?error=x&error_description=x"}).text)
	for _, text := range []string{
		"<script>alert(1)</script>", "</p></main><img src=x onerror=alert(1)>", `"><svg onload=alert(1)>`, "'-alert(1)-'",
		"<!--", "]]>", "{{.Code}}", "&lt;b&gt;", "javascript:alert(1)", "<a href=//evil.example>here", "\u2028<b>\u202e", "<\u0130MG>",
		"\x01\x07\x1b[31m", strings.Repeat("<", 5000), strings.Repeat("日", 5000), "a\r\nb",
	} {
		page := s.do(call{path: "/error?" + url.Values{"error": {text}, "error_description": {text}}.Encode()})
		require.Equal(t, http.StatusOK, page.StatusCode)
		require.Equal(t, plain, tags(page.text), "%.60q adds no tag", text)
		require.Less(t, len(page.text), 5000, "no text is too long for the page")
	}
	for _, query := range []string{"error=%ff", "error=%00", "error=%zz"} {
		require.Equal(t, http.StatusUnprocessableEntity, s.do(call{path: "/error?" + query}).StatusCode, query)
	}
}

// The page shows the id of the request that logged the reason, not its own.
func TestErrorPageNamesFailedRequest(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	begin := func() url.Values { return h.approve(s.browser().begin("github")) }
	declined := func() url.Values { return url.Values{"error": {"access_denied"}, "error_description": {"No."}} }
	for reason, query := range map[string]url.Values{"state_mismatch": begin(), "state_not_found": declined()} {
		a := s.browser().back("github", query)
		id := a.Header.Get("X-Request-Id")
		page := s.do(call{path: strings.TrimPrefix(a.Header.Get("Location"), s.url+"/api/auth")})
		require.Contains(t, page.text, "Reason "+reason+" · request "+id)
		require.NotContains(t, page.text, page.Header.Get("X-Request-Id"))
		level := map[string]string{"state_mismatch": "WARN", "state_not_found": "DEBUG"}[reason] // anybody can omit the state
		require.Equal(t, level, s.log.line(t, id, "sign-in failed")["level"])
		require.Equal(t, reason, s.log.line(t, id, "sign-in failed")["err"])
	}
	b := s.browser()
	query := declined()
	query.Set("state", b.begin("github").Query().Get("state"))
	line := s.log.line(t, b.back("github", query).Header.Get("X-Request-Id"), "sign-in failed")
	require.Equal(t, "INFO", line["level"], "declining is not an error")
	require.Equal(t, "access_denied", line["err"])
}

// An invalid request id is not shown.
func TestErrorPageIgnoresInvalidRequestID(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, id := range []string{"", "call 555-0100", "<b>", strings.Repeat("x", 129), "tok_svc_" + strings.Repeat("0", 38), "a\nb"} {
		page := s.do(call{path: "/error?" + url.Values{"error": {"access_denied"}, "request_id": {id}}.Encode()})
		require.Contains(t, page.text, "request "+page.Header.Get("X-Request-Id"), id)
	}
	require.Contains(t, s.do(call{path: "/error?error=access_denied&request_id=req-7"}).text, "request req-7")
}

// GitHub reports a redirect_uri mismatch at the registered address, where the browser has no cookie of
// ours.
func TestRedirectURIMismatch(t *testing.T) {
	t.Parallel()
	var registered string
	s := newSite(t, func(s *auth.Config) {
		registered = strings.Replace(s.Origin, "127.0.0.1", "localhost", 1) + "/api/auth/callback/github"
		web := newCodeHost(t, registered)
		s.Providers = map[string]*auth.Provider{"github": auth.NewProvider("github", clientID, clientSecret, web, web, s.Origin)}
	})
	b := s.browser()
	before := s.tally()
	back := answerAt(t, b.begin("github", "errorCallbackURL", "/sorry"), url.Values{"login": {"ada"}})
	require.Equal(t, registered, back.Scheme+"://"+back.Host+back.Path)
	require.Equal(t, "redirect_uri_mismatch", back.Query().Get("error"))

	a := s.browser().back("github", back.Query())
	a.requireSentBack(s.errorPage(), reason("redirect_uri_mismatch"))
	page := b.errorText(a)
	require.Contains(t, page, "The redirect_uri is not associated with this application.")
	require.Contains(t, page, s.config.Origin+"/api/auth/callback/github", "the sent redirect_uri")
	require.Contains(t, page, "An operator has to set AUTH_URL to the registered address, or register this one.")
	require.Equal(t, before, s.tally())
}

// Without a valid state, no other error of the query is passed on.
func TestErrorWithoutStateIsIgnored(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	query := url.Values{"error": {"access_denied"}, "error_description": {"Call 555-0100."}, "state": {"x"}}
	s.browser().back("github", query).requireSentBack(s.errorPage(), reason("state_mismatch"))
	query.Del("state")
	s.browser().back("github", query).requireSentBack(s.errorPage(), reason("state_not_found"))
}

// The retry link leads to the requested page if it is on this site.
func TestErrorPageRetryLink(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	b := s.browser()
	query := url.Values{"error": {"access_denied"}, "state": {b.begin("github", "callbackURL", "/runs?repo=1").Query().Get("state")}}
	a := b.back("github", query)
	want := reason("access_denied")
	want.Set("callbackURL", "/runs?repo=1")
	a.requireSentBack(s.errorPage(), want)
	require.Contains(t, b.errorText(a), `<a href="/runs?repo=1">Try again</a>`)
	for _, address := range []string{"https://evil.example/", "//evil.example", "javascript:alert(1)", `/\evil.example`, ""} {
		page := s.do(call{path: "/error?" + url.Values{"error": {"access_denied"}, "callbackURL": {address}}.Encode()})
		require.Contains(t, page.text, `<a href="/">Try again</a>`, address)
	}
	page := s.do(call{path: "/error?error=access_denied&provider=github"})
	require.NotContains(t, page.text, "redirect_uri", "not the cause")
}
