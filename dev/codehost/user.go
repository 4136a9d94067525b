package codehost

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"svc/http/reply"
)

// authenticate returns the owner of the request's token, or answers an error. The token needs one
// of the scopes needs; without any, GitHub answers 404.
func (h *host) authenticate(w http.ResponseWriter, r *http.Request, needs ...string) (Person, bool) {
	g, ok := h.bearer(w, r)
	if !ok {
		return Person{}, false
	}
	w.Header().Set("X-OAuth-Scopes", strings.Join(g.scopes, ", "))
	w.Header().Set("X-Accepted-OAuth-Scopes", strings.Join(needs, ", "))
	if len(needs) > 0 && !slices.ContainsFunc(needs, func(s string) bool { return slices.Contains(g.scopes, s) }) {
		refuse(w, http.StatusNotFound, "Not Found")
		return Person{}, false
	}
	return g.person, true
}

// bearer returns the grant of the request's token, or answers an error.
func (h *host) bearer(w http.ResponseWriter, r *http.Request) (grant, bool) {
	kind, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if kind == "" {
		refuse(w, http.StatusUnauthorized, "Requires authentication")
		return grant{}, false
	}
	g, ok := h.grants.lookup(strings.TrimSpace(text))
	if !ok || !strings.EqualFold(kind, "Bearer") && !strings.EqualFold(kind, "token") {
		refuse(w, http.StatusUnauthorized, "Bad credentials")
		return grant{}, false
	}
	return g, true
}

type user struct {
	Login     string  `json:"login"`
	ID        int64   `json:"id"`
	NodeID    string  `json:"node_id"`
	AvatarURL string  `json:"avatar_url"`
	URL       string  `json:"url"`
	HTMLURL   string  `json:"html_url"`
	Type      string  `json:"type"`
	SiteAdmin bool    `json:"site_admin"`
	Name      *string `json:"name"`
	Company   *string `json:"company"`
	Blog      string  `json:"blog"`
	Location  *string `json:"location"`
	Email     *string `json:"email"` // public address
	Bio       *string `json:"bio"`
}

func (h *host) user(w http.ResponseWriter, r *http.Request) {
	p, ok := h.authenticate(w, r)
	if !ok {
		return
	}
	here := base(r)
	u := user{
		Login: p.Login, ID: p.ID, NodeID: base64.StdEncoding.EncodeToString([]byte("04:User" + strconv.FormatInt(p.ID, 10))),
		AvatarURL: here + "/avatars/" + p.Login, URL: here + "/users/" + p.Login, HTMLURL: here + "/" + p.Login, Type: "User",
	}
	if p.Name != "" {
		u.Name = &p.Name
	}
	if i := slices.IndexFunc(p.Emails, func(e Email) bool { return e.Public }); i >= 0 {
		u.Email = &p.Emails[i].Address
	}
	reply.JSON(w, http.StatusOK, u)
}

// base returns the URL by which the client reached the host.
func base(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
