package auth

import (
	"maps"
	"slices"
)

// A shownProvider is a way to sign in, as whoever has no session yet is told of it.
type shownProvider struct {
	ID          string   `json:"id"`          // what sign-in/social takes
	Name        string   `json:"name"`        // what people call it
	Scopes      []string `json:"scopes"`      // what it is asked for
	RedirectURI string   `json:"redirectURI"` // what has to be registered with it
}

// labels are the names of kinds of code hosts.
var labels = map[string]string{"github": "GitHub", "gitea": "Gitea", "forgejo": "Forgejo"}

// listProviders says by what people can sign in, and what each provider is asked for.
func (s *Server) listProviders(*visit) (any, error) {
	list := []shownProvider{}
	for _, name := range slices.Sorted(maps.Keys(s.providers)) {
		p := s.providers[name]
		list = append(list, shownProvider{name, labels[name], p.oauth.Scopes, p.oauth.RedirectURL})
	}
	return map[string]any{"providers": list, "password": s.devSignIn}, nil
}
