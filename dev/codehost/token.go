package codehost

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"svc/http/reply"
)

// exchange exchanges a code for a token. As on GitHub, errors have status 200, and the answer is a
// form unless the client asks for JSON.
func (h *host) exchange(w http.ResponseWriter, r *http.Request) {
	fields, err := h.redeem(r)
	if refusal, ok := errors.AsType[*refusal](err); ok {
		fields = refusal.fields()
	} else if err != nil {
		refuse(w, http.StatusBadRequest, "Problems parsing the body")
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

func (h *host) redeem(r *http.Request) (map[string]string, error) {
	in, err := readTokenRequest(r)
	if err != nil {
		return nil, err
	}
	c := h.clients[in["client_id"]]
	if c == nil || subtle.ConstantTimeCompare([]byte(in["client_secret"]), []byte(c.Secret.Reveal())) != 1 {
		return nil, errClient
	}
	if in["grant_type"] != "" && in["grant_type"] != "authorization_code" {
		return nil, errGrant
	}
	token, g, err := h.grants.redeem(c.ID, in["code"], in["redirect_uri"], in["code_verifier"])
	if err != nil {
		return nil, err
	}
	return map[string]string{"access_token": token, "scope": strings.Join(g.scopes, ","), "token_type": "bearer"}, nil
}

// readTokenRequest reads a form or a JSON object, and credentials from HTTP Basic. It ignores the
// query, since URLs are logged.
func readTokenRequest(r *http.Request) (map[string]string, error) {
	in := map[string]string{}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media == "application/json" {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			return nil, err
		}
	} else {
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		for name := range r.PostForm {
			in[name] = r.PostForm.Get(name)
		}
	}
	if id, secret, ok := r.BasicAuth(); ok {
		id, _ = url.QueryUnescape(id) // RFC 6749, 2.3.1
		secret, _ = url.QueryUnescape(secret)
		in["client_id"], in["client_secret"] = id, secret
	}
	return in, nil
}
