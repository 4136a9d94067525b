package auth

import (
	"maps"
	"slices"
)

// A providerInfo describes a provider to callers without a session.
type providerInfo struct {
	ID          string   `json:"id"`          // the provider of sign-in/social
	Name        string   `json:"name"`        // for people
	Scopes      []string `json:"scopes"`      // requested scopes
	RedirectURI string   `json:"redirectURI"` // to register with the provider
}

// labels are the display names of the kinds of code hosts.
var labels = map[string]string{"github": "GitHub", "gitea": "Gitea", "forgejo": "Forgejo"}

// listProviders lists the ways to sign in.
func (s *Server) listProviders(*request) (any, error) {
	list := []providerInfo{}
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		p := s.Providers[name]
		list = append(list, providerInfo{name, labels[name], p.oauth.Scopes, p.oauth.RedirectURL})
	}
	return map[string]any{"providers": list, "password": s.DevSignIn}, nil
}
