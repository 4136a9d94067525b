package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// A Request is an application's authorization request.
type Request struct {
	Client      *client
	Redirect    *url.URL
	redirectURI string // redirect_uri as given, or the registered one
	state       string
	Scopes      []string
	challenge   string
	Hint        string // login or address of the person whom the application expects
}

var (
	errUnknownClient = errors.New("no such application")
	challenge        = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	scope            = regexp.MustCompile(`^[a-z_:]{1,40}$`)
)

// maxScopes bounds the scopes that are read; no code host has as many.
const maxScopes = 50

// Parse parses a request. A [Refusal] is to be sent to the application, whose redirect is valid;
// any other error is to be shown to the person.
func (s *Server) Parse(query url.Values) (Request, error) {
	c := s.clients[query.Get("client_id")]
	if c == nil {
		return Request{}, errUnknownClient
	}
	q := Request{Client: c, Redirect: c.callback, redirectURI: c.Callback, state: query.Get("state"), challenge: query.Get("code_challenge")}
	if text := query.Get("redirect_uri"); text != "" {
		u, err := parseRedirect(text)
		if err != nil || !redirectAllowed(c.callback, u) {
			return q, errRedirectURI
		}
		q.Redirect, q.redirectURI = u, text
	}
	q.Scopes = scopesOf(query.Get("scope"))
	q.Hint = query.Get("login")
	if q.Hint == "" {
		q.Hint = query.Get("login_hint")
	}
	method := query.Get("code_challenge_method")
	switch {
	case query.Has("response_type") && query.Get("response_type") != "code":
		return q, errType
	case (q.challenge != "" || method != "") && (method != "S256" || !challenge.MatchString(q.challenge)):
		return q, errPKCE
	}
	return q, nil
}

// scopesOf parses scopes separated by spaces or commas. Like GitHub it ignores malformed ones.
func scopesOf(text string) []string {
	scopes := []string{}
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	for _, s := range fields[:min(len(fields), maxScopes)] {
		if scope.MatchString(s) && !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// Refuse sends the browser to the application with a refusal.
func (q Request) Refuse(w http.ResponseWriter, r *http.Request, why *Refusal) {
	q.Send(w, r, why.Fields())
}

// Send redirects the browser to the application.
func (q Request) Send(w http.ResponseWriter, r *http.Request, parameters map[string]string) {
	parameters["state"] = q.state
	http.Redirect(w, r, addParameters(q.Redirect, parameters), http.StatusFound)
}
