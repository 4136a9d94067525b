package codehost

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"svc/dev/codehost/people"
	"svc/fault"
)

// A request is an application's authorization request.
type request struct {
	client      *client
	redirect    *url.URL
	redirectURI string // redirect_uri as given, or the registered one
	state       string
	scopes      []string
	challenge   string
	hint        string // login or address of the person whom the application expects
}

var (
	errUnknownClient = errors.New("no such application")
	challenge        = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	scope            = regexp.MustCompile(`^[a-z_:]{1,40}$`)
)

// maxScopes bounds the scopes that are read; no code host has as many.
const maxScopes = 50

// parse parses a request. A [refusal] is to be sent to the application, whose redirect is valid;
// any other error is to be shown to the person.
func (h *host) parse(query url.Values) (request, error) {
	c := h.clients[query.Get("client_id")]
	if c == nil {
		return request{}, errUnknownClient
	}
	q := request{client: c, redirect: c.callback, redirectURI: c.Callback, state: query.Get("state"), challenge: query.Get("code_challenge")}
	if text := query.Get("redirect_uri"); text != "" {
		u, err := parseRedirect(text)
		if err != nil || !redirectAllowed(c.callback, u) {
			return q, errRedirectURI
		}
		q.redirect, q.redirectURI = u, text
	}
	q.scopes = scopesOf(query.Get("scope"))
	q.hint = query.Get("login")
	if q.hint == "" {
		q.hint = query.Get("login_hint")
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

// authorizePage shows the authorization page. It ignores the parameter prompt and always asks, because nobody
// is signed in here.
func (h *host) authorizePage(w http.ResponseWriter, r *http.Request) {
	if q, ok := h.parseOrAnswer(w, r); ok {
		h.showRequest(w, r, http.StatusOK, q, personForm{Verified: true})
	}
}

// parseOrAnswer parses the request in the URL. If the request is invalid, it answers it and returns false.
func (h *host) parseOrAnswer(w http.ResponseWriter, r *http.Request) (request, bool) {
	q, err := h.parse(r.URL.Query())
	if refusal, ok := errors.AsType[*refusal](err); ok {
		q.refuse(w, r, refusal)
	} else if err != nil {
		show(w, http.StatusNotFound, message{"No such application", "No application with this client_id is registered here."})
	}
	return q, err == nil
}

func (q request) refuse(w http.ResponseWriter, r *http.Request, why *refusal) {
	q.send(w, r, why.fields())
}

// send redirects the browser to the application.
func (q request) send(w http.ResponseWriter, r *http.Request, parameters map[string]string) {
	parameters["state"] = q.state
	http.Redirect(w, r, addParameters(q.redirect, parameters), http.StatusFound)
}

// decide handles the person's answer: deny, the login of a listed person, or the name and address
// of a new one.
func (h *host) decide(w http.ResponseWriter, r *http.Request) {
	q, ok := h.parseOrAnswer(w, r)
	if !ok {
		return
	}
	if err := r.ParseForm(); err != nil {
		show(w, http.StatusBadRequest, message{"That could not be read", "Go back and try again."})
		return
	}
	form := personForm{
		Name: strings.TrimSpace(r.PostForm.Get("name")), Email: strings.TrimSpace(r.PostForm.Get("email")),
		Verified: r.PostForm.Has("verified"),
	}
	var p people.Person
	var err error
	switch {
	case r.PostForm.Has("deny"):
		q.refuse(w, r, errDenied)
		return
	case r.PostForm.Has("new"):
		p, err = h.people.Add(form.Name, form.Email, form.Verified)
	default:
		p, ok = h.people.ByLogin(r.PostForm.Get("login"))
		if !ok {
			err, form.Verified = fault.Field("login", "This person is not here any more."), true
		}
	}
	if err != nil {
		form.Problem = problem(err)
		h.showRequest(w, r, http.StatusUnprocessableEntity, q, form)
		return
	}
	code := h.grants.issue(code{
		grant: grant{q.client.ID, p, r.URL.Query().Get("scope"), q.scopes}, redirect: q.redirectURI, challenge: q.challenge,
	})
	q.send(w, r, map[string]string{"code": code})
}
