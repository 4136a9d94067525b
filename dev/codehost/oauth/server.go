// Package oauth gives codes and tokens to applications, as GitHub does.
package oauth

import (
	"fmt"
	"net/url"
	"time"

	"svc/config"
	"svc/dev/codehost/people"
)

// A Client is a registered application.
type Client struct {
	ID       string
	Name     string // shown to people; ID if empty
	Secret   config.Secret
	Callback string // absolute http or https URL; redirects to paths below it are allowed
}

type client struct {
	Client
	callback *url.URL
}

// A Server gives codes and tokens to registered applications, as people grant them.
type Server struct {
	clients map[string]*client
	grants  *grants
}

// NewServer returns a server for applications.
func NewServer(list []Client, now func() time.Time) (*Server, error) {
	s := &Server{clients: map[string]*client{}, grants: newGrants(now)}
	for _, c := range list {
		callback, err := parseRedirect(c.Callback)
		switch {
		case err != nil:
			return nil, fmt.Errorf("client %s: callback: %w", c.ID, err)
		case c.ID == "" || c.Secret == "" || s.clients[c.ID] != nil:
			return nil, fmt.Errorf("client %q: want an id of its own and a secret", c.ID)
		}
		s.clients[c.ID] = &client{c, callback}
	}
	return s, nil
}

// Issue returns a code for what a person grants. scopes are those of the request as the application wrote them.
func (s *Server) Issue(q Request, p people.Person, scopes string) string {
	return s.grants.issue(code{Grant: Grant{q.Client.ID, p, scopes, q.Scopes}, redirect: q.redirectURI, challenge: q.challenge})
}

// Lookup returns the grant of a token.
func (s *Server) Lookup(token string) (Grant, bool) { return s.grants.lookup(token) }
