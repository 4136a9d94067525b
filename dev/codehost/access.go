package codehost

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"svc/config"
	"svc/dev/codehost/people"
	"svc/dev/codehost/record"
)

// A Token is a token that is configured, of an account that nobody signs in as.
type Token struct {
	Token       config.Secret
	Login       string
	Push        bool     // and to write issues, pull requests and statuses; reading only otherwise
	NoWorkflows bool     // pushes may not change files below .github/workflows
	Repos       []string // owner/name; all if it is empty
}

// An access is what a request may do. The zero access is that of nobody.
type access struct {
	login     string
	known     bool // it has a valid token
	push      bool
	workflows bool
	private   bool     // it may see private repositories
	repos     []string // all if it is empty
	scopes    []string // of a token of a sign-in
	oauth     bool
}

// tokens are the configured tokens by their hashes.
type tokens map[[sha256.Size]byte]access

func newTokens(list []Token, known *people.Directory) (tokens, error) {
	t := tokens{}
	for _, one := range list {
		_, person := known.ByLogin(one.Login)
		key := sha256.Sum256([]byte(one.Token.Reveal()))
		switch {
		case !people.IsLogin(one.Login) || person:
			return nil, fmt.Errorf("token of %q: want a login that is nobody's", one.Login)
		case len(one.Token.Reveal()) < 16 || t[key].known:
			return nil, fmt.Errorf("token of %s: want one of its own with 16 characters or more", one.Login)
		}
		t[key] = access{
			login: one.Login, known: true, push: one.Push, workflows: !one.NoWorkflows, private: true, repos: one.Repos,
		}
	}
	return t, nil
}

// accessOf returns what a token may do.
func (h *host) accessOf(token string) (access, bool) {
	if a, ok := h.tokens[sha256.Sum256([]byte(token))]; ok {
		return a, true
	}
	g, ok := h.signIn.Lookup(token)
	if !ok {
		return access{}, false
	}
	has := func(scope string) bool { return slices.Contains(g.Scopes, scope) }
	return access{
		login: g.Person.Login, known: true, push: has("repo") || has("public_repo"), workflows: has("workflow"), private: has("repo"),
		scopes: g.Scopes, oauth: true,
	}, true
}

// credentials returns the access of a request. Without credentials it is nobody's; ok is false if they
// are wrong. A token may be a bearer token, or the password of HTTP Basic, or its user name alone.
func (h *host) credentials(r *http.Request) (a access, ok bool) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return access{}, true
	}
	kind, text, _ := strings.Cut(header, " ")
	switch {
	case strings.EqualFold(kind, "Bearer") || strings.EqualFold(kind, "token"):
		return h.accessOf(strings.TrimSpace(text))
	case strings.EqualFold(kind, "Basic"):
		user, password, _ := r.BasicAuth()
		if password == "" || password == "x-oauth-basic" {
			password = user
		}
		return h.accessOf(password)
	}
	return access{}, false
}

// mayRead reports whether a may see r.
func (a access) mayRead(r *record.Repository) bool {
	if !r.Private {
		return true
	}
	return a.known && a.private && a.covers(r) && (!a.oauth || slices.Contains(r.Writers, a.login))
}

// covers reports whether r is among the repositories of a's token.
func (a access) covers(r *record.Repository) bool {
	return len(a.repos) == 0 || slices.Contains(a.repos, r.Name)
}

// mayWrite reports whether a may write issues and comments of r.
func (a access) mayWrite(r *record.Repository) bool { return a.push && a.covers(r) }

// mayPush reports whether a may change branches of r and merge.
func (a access) mayPush(r *record.Repository) bool {
	return a.mayWrite(r) && (!a.oauth || slices.Contains(r.Writers, a.login))
}

// permission is the permission that an account has, whatever its tokens permit.
func (h *host) permission(r *record.Repository, login string) string {
	if slices.Contains(r.Writers, login) {
		return "write"
	}
	best := "none"
	if _, person := h.people.ByLogin(login); person && !r.Private {
		best = "read"
	}
	for _, a := range h.tokens {
		switch {
		case a.login != login || !a.covers(r):
		case a.push:
			return "write"
		default:
			best = "read"
		}
	}
	return best
}

// account returns the person with a login; of other logins it invents one.
func (h *host) account(login string) people.Person {
	if p, ok := h.people.ByLogin(login); ok {
		return p
	}
	return people.Person{ID: people.IDFor(login), Login: login}
}
