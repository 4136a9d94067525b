package oauth

import (
	"crypto/subtle"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// Redeem exchanges the code of a token request for a token, whose fields it returns.
func (s *Server) Redeem(r *http.Request) (map[string]string, error) {
	in, err := readTokenRequest(r)
	if err != nil {
		return nil, err
	}
	c := s.clients[in["client_id"]]
	if c == nil || subtle.ConstantTimeCompare([]byte(in["client_secret"]), []byte(c.Secret.Reveal())) != 1 {
		return nil, errClient
	}
	if in["grant_type"] != "" && in["grant_type"] != "authorization_code" {
		return nil, errGrant
	}
	token, g, err := s.grants.redeem(c.ID, in["code"], in["redirect_uri"], in["code_verifier"])
	if err != nil {
		return nil, err
	}
	return map[string]string{"access_token": token, "scope": strings.Join(g.Scopes, ","), "token_type": "bearer"}, nil
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
