package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"svc/http/auth"
)

const (
	tokenPath  = "/login/oauth/access_token"
	userPath   = "/user"
	emailsPath = "/user/emails"
)

// No fault of a provider signs anybody in or registers them, and the next sign-in succeeds.
func TestProviderFaultsSignNobodyIn(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	var followed atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		followed.Add(1)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(elsewhere.Close)
	redirects := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
		}
	}
	enormous := strings.Repeat(" ", 2<<20)
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

	for _, c := range []struct {
		path, what string
		by         http.HandlerFunc
		reason     string
	}{
		{tokenPath, "an error", respond(500, "gho_secret"), "invalid_code"},
		{tokenPath, "a refusal", respond(401, `{"error":"unauthorized"}`), "invalid_code"},
		{tokenPath, "a refusal as GitHub's", respond(200, `{"error":"bad_verification_code","error_description":"gho_secret"}`), "invalid_code"},
		{tokenPath, "another application's address", respond(200, `{"error":"redirect_uri_mismatch"}`), "redirect_uri_mismatch"},
		{tokenPath, "junk", respond(200, "<html>gho_secret"), "invalid_code"},
		{tokenPath, "nothing", respond(200, ""), "invalid_code"},
		{tokenPath, "no token", respond(200, `{"token_type":"bearer"}`), "invalid_code"},
		{tokenPath, "an empty token", respond(200, `{"access_token":""}`), "invalid_code"},
		{tokenPath, "a redirect", redirects(302), "invalid_code"},
		{tokenPath, "a redirect of the secret", redirects(307), "invalid_code"},
		{tokenPath, "an enormous body", respond(200, `%s{"access_token":"gho_secret"}`, enormous), "invalid_code"},
		{tokenPath, "half of an answer", abort, "invalid_code"},
		{tokenPath, "a token for more than was asked for", respond(200, `{"access_token":"gho_secret","scope":"read:user,repo,user:email"}`),
			"invalid_scope"},
		{tokenPath, "a token for all that there is", respond(200, `{"access_token":"gho_secret","scope":"all"}`), "invalid_scope"},
		{tokenPath, "a token for a user's whole account", respond(200, `{"access_token":"gho_secret","scope":"user read:user"}`),
			"invalid_scope"},
		{tokenPath, "a token that no header holds", respond(200, `{"access_token":"gho_secret\n"}`), "unable_to_get_user_info"},
		{tokenPath, "a token of nobody", respond(200, `{"access_token":"gho_secret"}`), "unable_to_get_user_info"},

		{userPath, "an error", respond(500, "{}"), "unable_to_get_user_info"},
		{userPath, "a refusal", respond(403, `{"message":"rate limit"}`), "unable_to_get_user_info"},
		{userPath, "junk", respond(200, "<html>"), "unable_to_get_user_info"},
		{userPath, "nothing", respond(200, ""), "unable_to_get_user_info"},
		{userPath, "a list", respond(200, "[]"), "unable_to_get_user_info"},
		{userPath, "null", respond(200, "null"), "unable_to_get_user_info"},
		{userPath, "somebody without an id", respond(200, `{"login":"ada"}`), "unable_to_get_user_info"},
		{userPath, "somebody with the id 0", respond(200, `{"id":0,"login":"ada"}`), "unable_to_get_user_info"},
		{userPath, "an id in words", respond(200, `{"id":"4711","login":"ada"}`), "unable_to_get_user_info"},
		{userPath, "an id that is too large", respond(200, `{"id":1e30,"login":"ada"}`), "unable_to_get_user_info"},
		{userPath, "a redirect", redirects(302), "unable_to_get_user_info"},
		{userPath, "an enormous body", respond(200, `{"id":4711,%s"login":"ada"}`, enormous), "unable_to_get_user_info"},
		{userPath, "half of an answer", abort, "unable_to_get_user_info"},

		{emailsPath, "an error", respond(502, "[]"), "unable_to_get_user_info"},
		{emailsPath, "no such thing", respond(404, "{}"), "unable_to_get_user_info"},
		{emailsPath, "junk", respond(200, "[{"), "unable_to_get_user_info"},
		{emailsPath, "an object", respond(200, "{}"), "unable_to_get_user_info"},
		{emailsPath, "a list of texts", respond(200, `["ada@acme.example"]`), "unable_to_get_user_info"},
		{emailsPath, "a redirect", redirects(307), "unable_to_get_user_info"},
		{emailsPath, "an enormous body", respond(200, `[%s]`, enormous), "unable_to_get_user_info"},
		{emailsPath, "no address", respond(200, "[]"), "email_not_found"},
		{emailsPath, "null", respond(200, "null"), "email_not_found"},
		{emailsPath, "unverified addresses only", respond(200, `[{"email":"ada@acme.example","primary":true}]`), "email_not_found"},
		{emailsPath, "an unverified address of another person", respond(200, `[{"email":"`+email+`","primary":true,"verified":false}]`),
			"email_not_found"},
		{emailsPath, "what is no address",
			respond(200, `[{"email":"ada","verified":true},{"email":"Ada <ada@acme.example>","verified":true},`+
				`{"email":"a@b\u0000","verified":true}]`),
			"email_not_found"},
	} {
		t.Run(c.path+" answers "+c.what, func(t *testing.T) {
			before := s.tally()
			h.override(c.path, c.by)
			defer h.override(c.path, nil)
			b := s.browser()
			b.signIn(h).requireSentBack(s.errorPage(), reason(c.reason))
			require.Nil(t, b.session())
			require.Equal(t, before, s.tally())
		})
	}
	require.Zero(t, followed.Load(), "a secret goes to the provider and nowhere else")
	h.requireNoSecret(s.log.String())
	require.NotContains(t, s.log.String(), "gho_secret")
	require.Contains(t, s.log.String(), "sign-in failed", "it is logged")

	s.browser().signIn(h).requireSentTo("/")
}

func TestProviderDown(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	b := s.browser()
	query := h.approve(b.begin("github"))
	h.Close()
	before := s.tally()
	a := b.back("github", query)
	a.requireSentBack(s.errorPage(), reason("invalid_code"))
	require.Contains(t, b.errorText(a), "The provider did not accept the sign-in or could not be reached.")
	require.Contains(t, s.log.String(), "connection refused")
	h.requireNoSecret(s.log.String())
	require.Equal(t, before, s.tally())
}

func TestProviderTimeout(t *testing.T) {
	t.Parallel()
	for path, code := range map[string]string{
		tokenPath: "invalid_code", userPath: "unable_to_get_user_info", emailsPath: "unable_to_get_user_info",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			s := newSite(t, withProvider(h), func(s *auth.Config) { s.Providers["github"].Limit(time.Second) })
			h.override(path, hang)
			b := s.browser()
			a := b.signIn(h)
			for try := 1; try < 5 && !strings.Contains(a.Header.Get("Location"), code); try++ {
				a = b.signIn(h) // an earlier call took too long on a busy machine
			}
			a.requireSentBack(s.errorPage(), reason(code))
			require.Nil(t, b.session())
		})
	}
}

// A call to the provider is cancelled with its request.
func TestProviderCallEndsWhenBrowserDisconnects(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	asked, ended := make(chan struct{}), make(chan struct{})
	h.override(userPath, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(ended)
	})
	b := s.browser()
	before := s.tally()
	query := h.approve(b.begin("github"))
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/auth/callback/github?"+query.Encode(), nil)
	require.NoError(t, err)
	gone := make(chan error, 1)
	go func() {
		w, err := b.http.Do(r)
		if err == nil {
			_ = w.Body.Close()
		}
		gone <- err
	}()
	await(t, asked)
	leave()
	require.ErrorIs(t, <-gone, context.Canceled)
	await(t, ended)
	require.Equal(t, before, s.tally())
}

// await waits for c to be closed.
func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		require.Fail(t, "timeout")
	}
}

// A provider's profile, and what is stored of it.
func TestProviderProfiles(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	for i, c := range []struct {
		what, user        string
		name, slug, image string
	}{
		{"all there is", `"login":"mia","name":"Mia","avatar_url":"https://a.example/1"`, "Mia", "mia", "https://a.example/1"},
		{"no name", `"login":"nia","name":null`, "nia", "nia", ""},
		{"a blank name", `"login":"ria","name":"  "`, "ria", "ria", ""},
		{"a name as Gitea gives it", `"login":"tia","full_name":"Tía","username":"tia"`, "Tía", "tia", ""},
		{"control characters", `"login":"via","name":"V\u0000i\na\u0007"`, "V i a", "via", ""},
		{"a long name", `"login":"wia","name":"` + strings.Repeat("é", 500) + `"`, strings.Repeat("é", 100), "wia", ""},
		{"markup in the name", `"login":"xia","name":"<script>"`, "<script>", "xia", ""},
		{"a script for a picture", `"login":"yia","avatar_url":"javascript:alert(1)"`, "yia", "yia", ""},
		{"a picture inside the address", `"login":"zia","avatar_url":"data:image/svg+xml,x"`, "zia", "zia", ""},
		{"a long address of the picture", `"login":"aia","avatar_url":"https://a.example/` + strings.Repeat("x", 3000) + `"`, "aia", "aia", ""},
		{"a login of another script", `"login":"日本"`, "日本", "u-home", ""},
		{"no login", `"name":"Nobody"`, "Nobody", "u-home-2", ""},
		{"neither login nor name", `"x":1`, "Somebody", "u-home-3", ""},
		{"another direction", `"login":"cia","name":"\u200fC\u202eía\u202c"`, "Cía", "cia", ""},
		{"nothing but directions", `"login":"\u202edia","name":"\u200f\u202e"`, "dia", "dia", ""},
		{"what nobody sees", `"login":"eia","name":"E\u200b\u00adia\ufeff \u3164"`, "Eia", "eia", ""},
		{"half of a character", `"login":"bia","name":"a\ud800b"`, "a\uFFFDb", "bia", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			h.override(userPath, respond(200, `{"id":%d,%s}`, 100+i, c.user))
			h.setPerson(account{}.with(fmt.Sprintf("person-%d@acme.example", i)))
			b := s.browser()
			b.signIn(h).requireSentTo("/")
			user := b.session()["user"]
			require.Equal(t, c.name, user["name"])
			if c.image == "" {
				require.Nil(t, user["image"])
			} else {
				require.Equal(t, c.image, user["image"])
			}
			home := b.list("/organization/list")[0]
			require.Equal(t, c.slug, home["slug"])
			require.LessOrEqual(t, utf8.RuneCountInString(home["name"].(string)), 100)
			require.True(t, strings.HasPrefix(home["name"].(string), strings.TrimSuffix(c.name, strings.Repeat("é", 12))))
		})
	}
}
