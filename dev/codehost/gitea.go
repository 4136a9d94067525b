package codehost

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"svc/dev/codehost/api"
	"svc/dev/codehost/oauth"
	"svc/dev/codehost/people"
	"svc/http/reply"
)

// authenticateGitea is authenticate with Gitea's rules: all of needs must be granted, and write
// includes read.
func (h *host) authenticateGitea(w http.ResponseWriter, r *http.Request, needs ...string) (people.Person, bool) {
	g, ok := h.bearer(w, r)
	if !ok {
		return people.Person{}, false
	}
	has := oauth.GiteaScopes(g.RequestedScopes)
	for _, need := range needs {
		if !slices.Contains(has, oauth.AllScopes) && !slices.Contains(has, need) &&
			!slices.Contains(has, strings.Replace(need, "read:", "write:", 1)) {
			api.Refuse(w, http.StatusForbidden, fmt.Sprintf("token does not have at least one of required scope(s): [%s]", need))
			return people.Person{}, false
		}
	}
	return g.Person, true
}

type giteaUser struct {
	ID        int64  `json:"id"`
	Login     string `json:"login"`
	FullName  string `json:"full_name"`
	Email     string `json:"email"` // primary address, verified or not
	AvatarURL string `json:"avatar_url"`
	HTMLURL   string `json:"html_url"`
	IsActive  bool   `json:"active"`
	UserName  string `json:"username"`
}

func (h *host) giteaUser(w http.ResponseWriter, r *http.Request) {
	if p, ok := h.authenticateGitea(w, r, "read:user"); ok {
		reply.JSON(w, http.StatusOK, giteaUser{
			ID: p.ID, Login: p.Login, FullName: p.Name, Email: p.Primary().Address,
			AvatarURL: api.Base(r) + "/avatars/" + p.Login, HTMLURL: api.Base(r) + "/" + p.Login, IsActive: true, UserName: p.Login,
		})
	}
}

type giteaEmail struct {
	Email    string `json:"email"`
	Verified bool   `json:"verified"`
	Primary  bool   `json:"primary"`
	UserID   int64  `json:"user_id"`
	UserName string `json:"username"`
}

func (h *host) giteaEmails(w http.ResponseWriter, r *http.Request) {
	p, ok := h.authenticateGitea(w, r, "read:user")
	if !ok {
		return
	}
	list := []giteaEmail{}
	for _, e := range p.Emails {
		list = append(list, giteaEmail{e.Address, e.Verified, e.Primary, p.ID, p.Login})
	}
	reply.JSON(w, http.StatusOK, list)
}

// giteaNewRepo answers as if it had created a repository but stores none. It shows what a token
// permits.
func (h *host) giteaNewRepo(w http.ResponseWriter, r *http.Request) {
	p, ok := h.authenticateGitea(w, r, "write:user", "write:repository")
	if !ok {
		return
	}
	var in struct {
		Name string `json:"name"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Name == "" {
		api.Refuse(w, http.StatusUnprocessableEntity, "[Name]: Required")
		return
	}
	reply.JSON(w, http.StatusCreated, map[string]string{"name": in.Name, "full_name": p.Login + "/" + in.Name})
}
