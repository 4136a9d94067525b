package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"svc/dev/codehost/people"
	"svc/lru"
)

const (
	codeLifetime  = 10 * time.Minute
	tokenLifetime = 8 * time.Hour
	maxGrants     = 1000 // of codes and of tokens; then the oldest are dropped
	minVerifier   = 43   // characters
	maxVerifier   = 128
)

// A Grant is what a person granted an application.
type Grant struct {
	client          string
	Person          people.Person
	RequestedScopes string   // scopes as the application wrote them
	Scopes          []string // scopes as GitHub interprets them
}

// A code is an authorization code.
type code struct {
	Grant
	redirect  string // redirect_uri of the request
	challenge string // "" without PKCE
	expires   time.Time
	used      bool
	token     string // token issued for it; "" if there was an error
}

type token struct {
	Grant
	expires time.Time
}

type grants struct {
	now    func() time.Time
	mu     sync.Mutex
	codes  *lru.Cache[string, *code]
	tokens *lru.Cache[string, token]
}

func newGrants(now func() time.Time) *grants {
	return &grants{now: now, codes: lru.New[string, *code](maxGrants), tokens: lru.New[string, token](maxGrants)}
}

// issue stores c and returns its code.
func (g *grants) issue(c code) string {
	text := strings.ToLower(rand.Text())
	c.expires = g.now().Add(codeLifetime)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.codes.Add(text, &c)
	return text
}

// redeem exchanges a code for a token. Any attempt by a client uses up the code, even if it fails.
// If a code is used twice, its token is revoked, because one of the two users has stolen the code.
func (g *grants) redeem(client, text, redirect, verifier string) (string, Grant, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.codes.Peek(text)
	if !ok || !g.now().Before(c.expires) {
		return "", Grant{}, errCode
	}
	if c.used {
		g.tokens.Remove(c.token)
		return "", Grant{}, errCode
	}
	c.used = true
	switch {
	case c.client != client || !verifierMatches(verifier, c.challenge):
		return "", Grant{}, errCode
	case redirect != "" && redirect != c.redirect:
		return "", Grant{}, errTokenRedirectURI
	}
	c.token = "gho_" + rand.Text()
	g.tokens.Add(c.token, token{c.Grant, g.now().Add(tokenLifetime)})
	return c.token, c.Grant, nil
}

// lookup returns the grant of a token.
func (g *grants) lookup(text string) (Grant, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := g.tokens.Peek(text)
	return t.Grant, ok && g.now().Before(t.expires)
}

// verifierMatches reports whether verifier matches challenge (PKCE). Either both or neither must be given: a
// verifier for a code without a challenge means that somebody removed the challenge from the
// request.
func verifierMatches(verifier, challenge string) bool {
	if verifier == "" || challenge == "" {
		return verifier == challenge
	}
	sum := sha256.Sum256([]byte(verifier))
	made := base64.RawURLEncoding.EncodeToString(sum[:])
	return len(verifier) >= minVerifier && len(verifier) <= maxVerifier &&
		subtle.ConstantTimeCompare([]byte(made), []byte(challenge)) == 1
}
