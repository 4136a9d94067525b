package codehost

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"svc/fault"
)

// A request is an application's request to be let in by somebody.
type request struct {
	client    *client
	redirect  *url.URL
	asked     string // redirect_uri as it was asked for, or the registered one
	state     string
	scopes    []string
	challenge string
	hint      string // a login or an address: whom the application expects
}

var (
	errUnknown = errors.New("no such application")
	challenge  = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	scope      = regexp.MustCompile(`^[a-z_:]{1,40}$`)
)

// maxScopes is how many are looked at; no host has as many.
const maxScopes = 50

// parse reads a request. A [refusal] goes back to the application, whose
// redirect is then known; any other error is for the person to see.
func (h *host) parse(query url.Values) (request, error) {
	c := h.clients[query.Get("client_id")]
	if c == nil {
		return request{}, errUnknown
	}
	q := request{client: c, redirect: c.callback, asked: c.Callback, state: query.Get("state"), challenge: query.Get("code_challenge")}
	if text := query.Get("redirect_uri"); text != "" {
		u, err := parseRedirect(text)
		if err != nil || !matches(c.callback, u) {
			return q, errAsked
		}
		q.redirect, q.asked = u, text
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

// scopesOf reads scopes separated by spaces or commas. Like GitHub it passes
// over what cannot be one.
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

// ask shows a person who asks for what. Whatever prompt says, it always asks:
// nobody is signed in here.
func (h *host) ask(w http.ResponseWriter, r *http.Request) {
	if q, ok := h.accept(w, r); ok {
		h.showRequest(w, r, http.StatusOK, q, draft{Verified: true})
	}
}

// accept reads the request in the address, or answers that there is none.
func (h *host) accept(w http.ResponseWriter, r *http.Request) (request, bool) {
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

// send leads the browser back to the application.
func (q request) send(w http.ResponseWriter, r *http.Request, parameters map[string]string) {
	parameters["state"] = q.state
	http.Redirect(w, r, with(q.redirect, parameters), http.StatusFound)
}

// decide takes a person's answer: deny, the login of one of the list, or the
// name and the address of somebody new.
func (h *host) decide(w http.ResponseWriter, r *http.Request) {
	q, ok := h.accept(w, r)
	if !ok {
		return
	}
	if err := r.ParseForm(); err != nil {
		show(w, http.StatusBadRequest, message{"That could not be read", "Go back and try again."})
		return
	}
	form := draft{
		Name: strings.TrimSpace(r.PostForm.Get("name")), Email: strings.TrimSpace(r.PostForm.Get("email")),
		Verified: r.PostForm.Has("verified"),
	}
	var p Person
	var err error
	switch {
	case r.PostForm.Has("deny"):
		q.refuse(w, r, errDenied)
		return
	case r.PostForm.Has("new"):
		p, err = h.people.invent(form.Name, form.Email, form.Verified)
	default:
		p, ok = h.people.byLogin(r.PostForm.Get("login"))
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
		grant: grant{q.client.ID, p, r.URL.Query().Get("scope"), q.scopes}, redirect: q.asked, challenge: q.challenge,
	})
	q.send(w, r, map[string]string{"code": code})
}
