package auth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A host is a fake provider.
type host struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	who     account                     // who agrees
	grants  map[string]url.Values       // by code: what was asked for
	people  map[string]account          // by code, and by token
	instead map[string]http.HandlerFunc // by path, or by path of another host
	secrets []string                    // codes, tokens and verifiers that it has seen
}

// An account is a person at the host.
type account struct {
	ID     int64     `json:"id"`
	Login  string    `json:"login"`
	Name   string    `json:"name"`
	Avatar string    `json:"avatar_url"`
	Emails []address `json:"-"`
}

type address struct {
	Email    string `json:"email"`
	Primary  bool   `json:"primary"`
	Verified bool   `json:"verified"`
}

func newHost(t *testing.T) *host {
	h := &host{t: t, grants: map[string]url.Values{}, people: map[string]account{}, instead: map[string]http.HandlerFunc{}}
	h.setPerson(ada)
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

var ada = account{ID: 4711, Login: "ada", Name: "Ada Lind", Avatar: "https://avatars.example/4711", Emails: []address{
	{"ada@home.example", false, true}, {"Ada@acme.example", true, true}, {"boss@acme.example", false, false},
}}

// with returns the account with other addresses, all verified, the first one primary.
func (a account) with(emails ...string) account {
	a.Emails = nil
	for i, e := range emails {
		a.Emails = append(a.Emails, address{e, i == 0, true})
	}
	return a
}

// setPerson sets who signs in at the host from now on.
func (h *host) setPerson(who account) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.who = who
}

// override sets the handler of a path; nil restores the default.
func (h *host) override(path string, by http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instead[path] = by
}

// approve returns the query of the redirect after the person has approved the request.
func (h *host) approve(asked *url.URL) url.Values {
	h.mu.Lock()
	defer h.mu.Unlock()
	code := "code-" + strconv.Itoa(len(h.grants)) + "-of-a-sign-in"
	h.grants[code], h.people[code] = asked.Query(), h.who
	h.secrets = append(h.secrets, code)
	return url.Values{"code": {code}, "state": {asked.Query().Get("state")}}
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	other := h.instead[r.URL.Path]
	h.mu.Unlock()
	if other != nil {
		other(w, r)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	who, known := h.people[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/login/oauth/access_token":
		encode(w, h.redeem(r))
	case !known:
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/user":
		encode(w, who)
	case r.URL.Path == "/user/emails":
		encode(w, who.Emails)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// redeem exchanges a code for a token, once, if the verifier matches.
func (h *host) redeem(r *http.Request) map[string]string {
	code, verifier := r.PostFormValue("code"), r.PostFormValue("code_verifier")
	asked, sum := h.grants[code], sha256.Sum256([]byte(verifier))
	h.secrets = append(h.secrets, verifier)
	switch {
	case r.PostFormValue("client_id") != clientID || r.PostFormValue("client_secret") != clientSecret:
		return map[string]string{"error": "incorrect_client_credentials"}
	case r.PostFormValue("grant_type") != "authorization_code" || r.Header.Get("Accept") != "" &&
		!strings.Contains(r.Header.Get("Accept"), "json"):
		return map[string]string{"error": "unsupported_grant_type"}
	case asked == nil || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]):
		return map[string]string{"error": "bad_verification_code", "error_description": "with " + verifier}
	case asked.Get("redirect_uri") != r.PostFormValue("redirect_uri"):
		return map[string]string{"error": "redirect_uri_mismatch"}
	}
	token := "gho_" + strings.Repeat(strconv.Itoa(len(h.secrets)), 30)
	h.people[token] = h.people[code]
	delete(h.grants, code)
	h.secrets = append(h.secrets, token)
	return map[string]string{"access_token": token, "token_type": "bearer", "scope": strings.ReplaceAll(asked.Get("scope"), " ", ",")}
}

func encode(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // if it fails the caller has gone
}

// seen returns the secrets that the host has sent or received.
func (h *host) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{clientSecret}, h.secrets...)
}

// respond answers with a status and a body.
func respond(status int, format string, args ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, format, args...)
	}
}

// hang answers only after the caller has disconnected.
func hang(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // only then does the server see the caller go
	<-r.Context().Done()
}

// requireNoSecret checks that no secret of a sign-in is in a text.
func (h *host) requireNoSecret(text string) {
	h.t.Helper()
	for _, secret := range h.seen() {
		require.NotContains(h.t, text, secret)
	}
}
