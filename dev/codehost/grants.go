package codehost

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	codeLife    = 10 * time.Minute
	tokenLife   = 8 * time.Hour
	maxGrants   = 1000 // codes, and tokens; then the eldest are forgotten
	minVerifier = 43   // characters
	maxVerifier = 128
)

// A grant is what a person allowed an application.
type grant struct {
	client string
	person Person
	asked  string   // the scopes as the application wrote them
	scopes []string // those that GitHub would make of them
}

// A code stands for a grant until the application comes for its token.
type code struct {
	grant
	redirect  string // as it was asked for
	challenge string // "" without PKCE
	expires   time.Time
	used      bool
	token     string // "" if its use came to nothing
}

type token struct {
	grant
	expires time.Time
}

type grants struct {
	now    func() time.Time
	mu     sync.Mutex
	codes  *simplelru.LRU[string, *code]
	tokens *simplelru.LRU[string, token]
}

func newGrants(now func() time.Time) *grants {
	codes, _ := simplelru.NewLRU[string, *code](maxGrants, nil) // refuses sizes below 1 only
	tokens, _ := simplelru.NewLRU[string, token](maxGrants, nil)
	return &grants{now: now, codes: codes, tokens: tokens}
}

// issue returns the code of c.
func (g *grants) issue(c code) string {
	text := strings.ToLower(rand.Text())
	c.expires = g.now().Add(codeLife)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.codes.Add(text, &c)
	return text
}

// redeem returns a token for a code. A client that presents a code has used
// it, also when something else is wrong; if it was used before, the token it
// was good for is revoked, for one of the two who had it has stolen it.
func (g *grants) redeem(client, text, redirect, verifier string) (string, grant, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.codes.Peek(text)
	if !ok || !g.now().Before(c.expires) {
		return "", grant{}, errCode
	}
	if c.used {
		g.tokens.Remove(c.token)
		return "", grant{}, errCode
	}
	c.used = true
	switch {
	case c.client != client || !proves(verifier, c.challenge):
		return "", grant{}, errCode
	case redirect != "" && redirect != c.redirect:
		return "", grant{}, errRedeemed
	}
	c.token = "gho_" + rand.Text()
	g.tokens.Add(c.token, token{c.grant, g.now().Add(tokenLife)})
	return c.token, c.grant, nil
}

// of returns what a token is good for.
func (g *grants) of(text string) (grant, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := g.tokens.Peek(text)
	return t.grant, ok && g.now().Before(t.expires)
}

// proves reports whether verifier is what challenge is the hash of. Neither
// may come without the other: a verifier for a code that has no challenge
// means that somebody took the challenge out of the request.
func proves(verifier, challenge string) bool {
	if verifier == "" || challenge == "" {
		return verifier == challenge
	}
	sum := sha256.Sum256([]byte(verifier))
	made := base64.RawURLEncoding.EncodeToString(sum[:])
	return len(verifier) >= minVerifier && len(verifier) <= maxVerifier &&
		subtle.ConstantTimeCompare([]byte(made), []byte(challenge)) == 1
}
