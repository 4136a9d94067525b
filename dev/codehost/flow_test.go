package codehost

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := start(t)

	page := s.do(t, "GET", authorizeQuery(), "")
	require.Equal(t, http.StatusOK, page.status)
	action := regexp.MustCompile(`action="([^"]*)"`).FindStringSubmatch(page.body)[1]
	action = strings.NewReplacer("&amp;", "&", "&#43;", "+").Replace(action)
	require.Contains(t, page.body, `name="login" value="ada"`)

	to, query := s.do(t, "POST", action, "login=ada", "Origin", s.url, "Sec-Fetch-Site", "same-origin").redirect(t)
	require.Equal(t, callback, to)
	require.Equal(t, "s t&te", query.Get("state"))
	require.Len(t, query, 2)

	got := s.exchange(t, query.Get("code"))
	require.Equal(t, "bearer", got["token_type"])
	require.Equal(t, "read:user,user:email", got["scope"])
	require.Regexp(t, `^gho_[A-Z0-9]{20,}$`, got["access_token"])
	require.Len(t, got, 3)

	me := s.get(t, "/user", got["access_token"])
	require.Equal(t, http.StatusOK, me.status)
	require.Equal(t, "read:user, user:email", me.header.Get("X-OAuth-Scopes"))
	who := me.is(t, http.StatusOK)
	for name, want := range map[string]any{
		"login": "ada", "id": 1.0, "node_id": "MDQ6VXNlcjE=", "name": "Ada Lind", "email": nil, "type": "User", "site_admin": false,
		"avatar_url": s.url + "/avatars/ada", "url": s.url + "/api/v3/users/ada", "html_url": s.url + "/ada",
	} {
		require.Equal(t, want, who[name], name)
	}

	list := s.get(t, "/user/emails", got["access_token"])
	require.JSONEq(t, `[
		{"email":"ada@home.example","primary":false,"verified":true,"visibility":null},
		{"email":"ada@acme.example","primary":true,"verified":true,"visibility":"private"},
		{"email":"boss@acme.example","primary":false,"verified":false,"visibility":null}]`, list.body)
}

// The redirect is the registered one; there is no state, no PKCE, no scope.
func TestSignInWithMinimalParameters(t *testing.T) {
	t.Parallel()
	s := start(t)
	to, query := s.do(t, "POST", "/login/oauth/authorize?client_id="+clientID, "login=eve").redirect(t)
	require.Equal(t, callback, to)
	require.Len(t, query, 1)
	body := url.Values{"client_id": {clientID}, "client_secret": {clientSecret}, "code": query["code"]}.Encode()
	res := s.do(t, "POST", "/login/oauth/access_token", body)
	require.Equal(t, "application/x-www-form-urlencoded; charset=utf-8", res.header.Get("Content-Type"))
	got, err := url.ParseQuery(res.body)
	require.NoError(t, err)
	require.Equal(t, "bearer", got.Get("token_type"))
	require.Equal(t, []string{""}, got["scope"])
	me := s.get(t, "/user", got.Get("access_token"))
	require.Contains(t, me.body, `"login":"eve"`)
	require.Contains(t, me.body, `"name":null`)
}

func TestTokenRequestWithJSONAndBasicAuth(t *testing.T) {
	t.Parallel()
	s := start(t)
	body := `{"client_id":"` + clientID + `","client_secret":"` + clientSecret + `","code":"` + s.code(t, "ada") +
		`","code_verifier":"` + verifier + `"}`
	res := s.do(t, "POST", "/login/oauth/access_token", body, "Content-Type", "application/json", "Accept", "application/json")
	require.Contains(t, res.body, `"access_token":"gho_`)

	basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(clientID) + ":" + url.QueryEscape(clientSecret)))
	body = url.Values{"code": {s.code(t, "ada")}, "code_verifier": {verifier}}.Encode()
	res = s.do(t, "POST", "/login/oauth/access_token", body, "Authorization", "Basic "+basic)
	require.Contains(t, res.body, "access_token=gho_")

	res = s.do(t, "POST", "/login/oauth/access_token", "{", "Content-Type", "application/json")
	require.Equal(t, http.StatusBadRequest, res.status)
	require.Contains(t, res.body, `"message":"Problems parsing the body"`)
}

func TestCodeCanBeUsedOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	code := s.code(t, "ada")
	token := s.exchange(t, code)["access_token"]
	require.Equal(t, http.StatusOK, s.get(t, "/user", token).status)

	again := s.exchange(t, code)
	require.Equal(t, "bad_verification_code", again["error"])
	require.Empty(t, again["access_token"])
	require.Equal(t, http.StatusUnauthorized, s.get(t, "/user", token).status, "the token it made is revoked")

	other := s.token(t, "ada")
	require.Equal(t, http.StatusOK, s.get(t, "/user", other).status, "no other token is")
}

func TestCodeCanBeUsedOnceConcurrently(t *testing.T) {
	t.Parallel()
	s := start(t)
	code := s.code(t, "ada")
	var group sync.WaitGroup
	tokens := make(chan string, 8)
	for range cap(tokens) {
		group.Go(func() {
			if token := s.exchange(t, code)["access_token"]; token != "" {
				tokens <- token
			}
		})
	}
	group.Wait()
	require.Len(t, tokens, 1)
	require.Equal(t, http.StatusUnauthorized, s.get(t, "/user", <-tokens).status)
}

func TestCodesAndTokensExpire(t *testing.T) {
	t.Parallel()
	s := start(t)
	early, late := s.code(t, "ada"), s.code(t, "ada")
	s.later.Store(int64(10*time.Minute - time.Second))
	token := s.exchange(t, early)["access_token"]
	require.NotEmpty(t, token)
	s.later.Store(int64(10 * time.Minute))
	require.Equal(t, "bad_verification_code", s.exchange(t, late)["error"])

	s.later.Store(int64(10*time.Minute - time.Second + 8*time.Hour - 1))
	require.Equal(t, http.StatusOK, s.get(t, "/user", token).status)
	s.later.Add(1)
	require.Equal(t, http.StatusUnauthorized, s.get(t, "/user", token).status)
}
