package auth_test

import (
	"maps"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/auth"
	"svc/sessions"
)

// withTwoProviders configures the same host as two providers.
func withTwoProviders(h *host) func(*auth.Config) {
	return func(s *auth.Config) {
		s.Providers = map[string]*auth.Provider{}
		for _, name := range []string{"github", "gitea"} {
			s.Providers[name] = auth.NewProvider(name, clientID, clientSecret, h.URL, h.URL, s.Origin)
		}
	}
}

func TestCallbackRequiresMatchingState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil    func(s *site, b *browser, query url.Values) *browser // returns who comes back
		provider string
		reason   string
		unknown  bool // which sign-in it is, and so where its errors go
	}{
		"another browser comes back": {spoil: func(s *site, _ *browser, _ url.Values) *browser { return s.browser() }, reason: "state_mismatch"},
		"another browser that has begun as well": {spoil: func(s *site, _ *browser, _ url.Values) *browser {
			b := s.browser()
			b.begin("github")
			return b
		}, reason: "state_mismatch"},
		"the browser has begun again since": {spoil: func(_ *site, b *browser, _ url.Values) *browser {
			b.begin("github")
			return b
		}, reason: "state_mismatch"},
		"there is no state": {spoil: func(_ *site, b *browser, q url.Values) *browser {
			q.Del("state")
			return b
		}, reason: "state_not_found", unknown: true},
		"the state is empty": {spoil: func(_ *site, b *browser, q url.Values) *browser {
			q.Set("state", "")
			return b
		}, reason: "state_not_found", unknown: true},
		"the state was altered": {spoil: func(_ *site, b *browser, q url.Values) *browser {
			q.Set("state", "A"+q.Get("state"))
			return b
		}, reason: "state_mismatch", unknown: true},
		"the cookie was altered": {spoil: func(_ *site, b *browser, _ url.Values) *browser {
			b.plant(stateCookie, "A"+b.cookies()[stateCookie])
			return b
		}, reason: "state_mismatch"},
		"the cookie is the state itself": {spoil: func(_ *site, b *browser, q url.Values) *browser {
			b.plant(stateCookie, q.Get("state"))
			return b
		}, reason: "state_mismatch"},
		"ten minutes have passed": {spoil: func(s *site, b *browser, _ url.Values) *browser {
			s.advance(10 * time.Minute)
			return b
		}, reason: "state_mismatch"},
		"another provider sends the browser": {spoil: func(_ *site, b *browser, _ url.Values) *browser { return b },
			provider: "gitea", reason: "state_mismatch"},
		"a provider that there is not": {spoil: func(_ *site, b *browser, _ url.Values) *browser { return b },
			provider: "gitlab", reason: "oauth_provider_not_found"},
		"the secret was changed meanwhile": {spoil: func(s *site, b *browser, _ url.Values) *browser {
			return &browser{s.withSecret("another secret of thirty-two chars"), b.http}
		}, reason: "state_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			s := newSite(t, withTwoProviders(h))
			b := s.browser()
			query := h.approve(b.begin("github", "callbackURL", "/inbox", "errorCallbackURL", "/sorry"))
			before := s.tally()
			if c.provider == "" {
				c.provider = "github"
			}
			who := c.spoil(s, b, query)
			where := "/sorry"
			if c.unknown {
				where = s.errorPage()
			}
			who.back(c.provider, query).requireSentBack(where, reason(c.reason))
			require.Nil(t, who.session())
			require.Equal(t, before, s.tally())
		})
	}
}

// withSecret returns the site with another AUTH_SECRET.
func (s *site) withSecret(secret string) *site {
	changed := *s.config
	changed.Sessions = &sessions.Store{DB: s.config.Sessions.DB, Secret: []byte(secret), Now: s.now, Log: s.config.Log}
	server := httptest.NewServer(auth.New(changed).Handler())
	s.t.Cleanup(server.Close)
	return &site{t: s.t, url: server.URL, config: &changed, log: s.log}
}

func TestStateLastsTenMinutes(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	b := s.browser()
	query := h.approve(b.begin("github"))
	s.advance(10*time.Minute - time.Second)
	b.back("github", query).requireSentTo("/")
}

func TestStateIsUsedOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	b := s.browser()
	asked := b.begin("github")
	cookie := b.cookies()[stateCookie]
	b.back("github", h.approve(asked)).requireSentTo("/")
	before := s.tally()

	thief := s.browser()
	thief.plant(stateCookie, cookie)
	thief.back("github", h.approve(asked)).requireSentBack(s.errorPage(), reason("state_mismatch"))
	require.Nil(t, thief.session())
	require.Equal(t, before, s.tally())

	asked = b.begin("github", "errorCallbackURL", "/sorry")
	b.back("github", h.approve(asked)).requireSentTo("/")
	b.back("github", h.approve(asked)).requireSentBack("/sorry", reason("state_mismatch")) // the page was loaded again
}

// A state that leaks cannot be used to break the sign-in.
func TestForeignBrowserDoesNotConsumeState(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	b := s.browser()
	query := h.approve(b.begin("github"))
	s.browser().back("github", query).requireSentBack(s.errorPage(), reason("state_mismatch"))
	b.back("github", query).requireSentTo("/")
}

// Otherwise a code put into another browser would sign that person in as its owner.
func TestCodeOfOtherBrowserIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	eve, b := s.browser(), s.browser()
	stolen, own := h.approve(eve.begin("github")), h.approve(b.begin("github"))
	before := s.tally()
	own.Set("code", stolen.Get("code"))
	b.back("github", own).requireSentBack(s.errorPage(), reason("invalid_code"))
	require.Nil(t, b.session())
	require.Equal(t, before, s.tally())
	h.requireNoSecret(s.log.String())
}

func TestAbandonedSignInsAreDeleted(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	for range 3 {
		s.browser().begin("github")
	}
	require.Equal(t, 3, s.count("oauth_states"))
	s.advance(70*time.Minute - time.Second)
	s.browser().begin("github")
	require.Equal(t, 4, s.count("oauth_states"), "their error addresses are kept for an hour more")
	s.advance(time.Second)
	s.browser().begin("github")
	require.Equal(t, 2, s.count("oauth_states"))
}

func TestProviderErrors(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	long := strings.Repeat("é", 300)
	for name, c := range map[string]struct {
		query, want url.Values // nil means query
	}{
		"the person declined": {url.Values{"error": {"access_denied"}, "error_description": {"The user has denied your application access."}},
			nil},
		"no description":         {reason("temporarily_unavailable"), nil},
		"an address of a manual": {url.Values{"error": {"access_denied"}, "error_uri": {"https://evil.example"}}, reason("access_denied")},
		"a code as well":         {url.Values{"error": {"access_denied"}, "code": {"x"}}, reason("access_denied")},
		"markup in the text":     {url.Values{"error": {"access_denied"}, "error_description": {"<b>&\"'"}}, nil},
		"a text that is too long": {url.Values{"error": {"access_denied"}, "error_description": {long}},
			url.Values{"error": {"access_denied"}, "error_description": {long[:400]}}},
		"a reason that is none": {reason("server said: <no>"), reason("internal_server_error")},
		"a line break":          {url.Values{"error": {"access_denied"}, "error_description": {"a\r\nSet-Cookie: x=y"}}, nil},
	} {
		for place, where := range map[string]string{"": s.errorPage(), "/sorry": "/sorry"} {
			t.Run(name+place, func(t *testing.T) {
				before := s.tally()
				b := s.browser()
				asked := b.begin("github", "errorCallbackURL", place)
				query, want := maps.Clone(c.query), c.want
				if want == nil {
					want = c.query
				}
				query.Set("state", asked.Query().Get("state"))
				b.back("github", query).requireSentBack(where, want)
				require.Nil(t, b.session())
				require.Equal(t, before, s.tally())
			})
		}
	}
}

func TestErrorIsAppendedToCallbackURL(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	for asked, want := range map[string]string{
		"/sorry":             "/sorry?error=access_denied",
		"/sorry?a=1":         "/sorry?a=1&error=access_denied",
		"/sorry?a=1#top":     "/sorry?a=1&error=access_denied#top",
		"/sorry#/inbox":      "/sorry?error=access_denied#/inbox",
		s.url + "/sorry?a=1": s.url + "/sorry?a=1&error=access_denied",
	} {
		b := s.browser()
		state := b.begin("github", "errorCallbackURL", asked).Query().Get("state")
		a := b.back("github", url.Values{"error": {"access_denied"}, "state": {state}})
		require.Equal(t, want, a.Header.Get("Location"))
	}
}

// Whoever can write to the database cannot send people who sign in to another site.
func TestForeignAddressInStateIsIgnored(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	for _, outcome := range []string{"signed in", "refused", "another browser"} {
		b := s.browser()
		granted := h.approve(b.begin("github"))
		_, err := s.config.Sessions.DB.Exec(t.Context(), `
			update oauth_states set callback_url = 'https://evil.example/a', error_callback_url = '//evil.example/b',
				new_user_url = 'https://evil.example/c'`)
		require.NoError(t, err)
		var a answer
		switch outcome {
		case "signed in":
			a = b.back("github", granted)
			a.requireSentTo("/")
		case "refused":
			a = b.back("github", url.Values{"state": granted["state"], "error": {"access_denied"}})
			a.requireSentBack(s.errorPage(), reason("access_denied"))
		default:
			a = s.browser().back("github", granted)
			a.requireSentBack(s.errorPage(), reason("state_mismatch"))
		}
		require.NotContains(t, a.Header.Get("Location"), "evil", outcome)
	}
	require.Contains(t, s.log.String(), "its row was changed")
}
