package codehost

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"svc/dev/codehost/api"
	"svc/dev/codehost/oauth"
	"svc/dev/codehost/people"
)

// authenticate returns the owner of the request's token, or answers an error. The token needs one
// of the scopes needs; without any, GitHub answers 404.
func (h *host) authenticate(w http.ResponseWriter, r *http.Request, needs ...string) (people.Person, bool) {
	g, ok := h.bearer(w, r)
	if !ok {
		return people.Person{}, false
	}
	w.Header().Set("X-OAuth-Scopes", strings.Join(g.Scopes, ", "))
	w.Header().Set("X-Accepted-OAuth-Scopes", strings.Join(needs, ", "))
	if len(needs) > 0 && !slices.ContainsFunc(needs, func(s string) bool { return slices.Contains(g.Scopes, s) }) {
		api.Refuse(w, http.StatusNotFound, "Not Found")
		return people.Person{}, false
	}
	return g.Person, true
}

// bearer returns the grant of the request's token, or answers an error.
func (h *host) bearer(w http.ResponseWriter, r *http.Request) (oauth.Grant, bool) {
	kind, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if kind == "" {
		api.Refuse(w, http.StatusUnauthorized, "Requires authentication")
		return oauth.Grant{}, false
	}
	g, ok := h.signIn.Lookup(strings.TrimSpace(text))
	if a, configured := h.tokens[sha256.Sum256([]byte(strings.TrimSpace(text)))]; configured {
		g, ok = oauth.Grant{Person: h.account(a.login), RequestedScopes: "read:user"}, true
	}
	if !ok || !strings.EqualFold(kind, "Bearer") && !strings.EqualFold(kind, "token") {
		api.Refuse(w, http.StatusUnauthorized, "Bad credentials")
		return oauth.Grant{}, false
	}
	return g, true
}

// getUser answers the owner of a token.
func getUser(v *visit) (int, any, error) {
	v.head.Set("X-OAuth-Scopes", strings.Join(v.who.scopes, ", "))
	v.head.Set("X-Accepted-OAuth-Scopes", "")
	p, out := v.h.account(v.who.login), v.user(v.who.login)
	email := ""
	if i := slices.IndexFunc(p.Emails, func(e people.Email) bool { return e.Public }); i >= 0 {
		email = p.Emails[i].Address
	}
	maps.Copy(out, object{
		"name": api.TextOrNull(p.Name), "email": api.TextOrNull(email), "company": nil, "blog": "", "location": nil, "hireable": nil, "bio": nil,
		"public_repos": 0, "public_gists": 0, "followers": 0, "following": 0, "created_at": api.Stamp(began), "updated_at": api.Stamp(began),
	})
	return http.StatusOK, out, nil
}

// began is when all accounts were made.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
