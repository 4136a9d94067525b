package codehost

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"svc/dev/codehost/api"
	"svc/dev/codehost/oauth"
	"svc/dev/codehost/people"
	"svc/fault"
	"svc/http/reply"
)

// authorizePage shows the authorization page. It ignores the parameter prompt and always asks, because nobody
// is signed in here.
func (h *host) authorizePage(w http.ResponseWriter, r *http.Request) {
	if q, ok := h.parseOrAnswer(w, r); ok {
		h.showRequest(w, r, http.StatusOK, q, personForm{Verified: true})
	}
}

// parseOrAnswer parses the request in the URL. If the request is invalid, it answers it and returns false.
func (h *host) parseOrAnswer(w http.ResponseWriter, r *http.Request) (oauth.Request, bool) {
	q, err := h.signIn.Parse(r.URL.Query())
	if refusal, ok := errors.AsType[*oauth.Refusal](err); ok {
		q.Refuse(w, r, refusal)
	} else if err != nil {
		show(w, http.StatusNotFound, message{"No such application", "No application with this client_id is registered here."})
	}
	return q, err == nil
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
		q.Refuse(w, r, oauth.ErrDenied)
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
	q.Send(w, r, map[string]string{"code": h.signIn.Issue(q, p, r.URL.Query().Get("scope"))})
}

// exchange exchanges a code for a token. As on GitHub, errors have status 200, and the answer is a
// form unless the client asks for JSON.
func (h *host) exchange(w http.ResponseWriter, r *http.Request) {
	fields, err := h.signIn.Redeem(r)
	if refusal, ok := errors.AsType[*oauth.Refusal](err); ok {
		fields = refusal.Fields()
	} else if err != nil {
		api.Refuse(w, http.StatusBadRequest, "Problems parsing the body")
		return
	}
	w.Header().Set("Pragma", "no-cache")
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		reply.JSON(w, http.StatusOK, fields)
		return
	}
	form := url.Values{}
	for name, value := range fields {
		form.Set(name, value)
	}
	w.Header().Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	_, _ = w.Write([]byte(form.Encode())) // fails if the client has gone
}
