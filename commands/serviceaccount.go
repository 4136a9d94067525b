package commands

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"

	"svc/aggregates"
	"svc/events"
	"svc/input"
)

// A ServiceToken is the whole secret of a service account: "tok_svc_", 32
// random characters, and a checksum of 6, all base62. No printing shows it, as long as
// it is kept in exported fields: fmt cannot call the methods of others.
type ServiceToken string

const (
	tokenPrefix  = input.TokenPrefix
	tokenRandom  = 32
	tokenSum     = 6
	tokenLength  = len(tokenPrefix) + tokenRandom + tokenSum
	base62       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	tailOfTokens = 4
)

// NewServiceToken makes a token from the system's randomness.
func NewServiceToken() ServiceToken {
	var b strings.Builder
	b.WriteString(tokenPrefix)
	for range tokenRandom {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(base62))))
		if err != nil {
			panic(err) // crypto/rand does not fail
		}
		b.WriteByte(base62[n.Int64()])
	}
	return ServiceToken(b.String() + checksum(b.String()))
}

// ParseServiceToken tells a token from other text by its form and checksum.
func ParseServiceToken(s string) (ServiceToken, bool) {
	if len(s) != tokenLength || !strings.HasPrefix(s, tokenPrefix) || strings.Trim(s[len(tokenPrefix):], base62) != "" {
		return "", false
	}
	body := s[:tokenLength-tokenSum]
	return ServiceToken(s), checksum(body) == s[len(body):]
}

// checksum is the CRC-32 of s in base62, most significant digit first.
func checksum(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	var digits [tokenSum]byte
	for i := tokenSum - 1; i >= 0; i-- {
		digits[i] = base62[sum%62]
		sum /= 62
	}
	return string(digits[:])
}

// Fingerprint is what is stored in the token's place.
func (t ServiceToken) Fingerprint() events.Fingerprint { return sha256.Sum256([]byte(t)) }

// Tail returns the last four characters.
func (t ServiceToken) Tail() string { return string(t[len(t)-tailOfTokens:]) }

// Reveal returns the token itself: for the one answer that shows it.
func (t ServiceToken) Reveal() string { return string(t) }

const tokenShown = "[service token]"

// Format keeps the token out of whatever is printed.
func (t ServiceToken) Format(f fmt.State, _ rune) { fmt.Fprint(f, tokenShown) }

// MarshalText keeps it out of JSON and of structured logs.
func (t ServiceToken) MarshalText() ([]byte, error) { return []byte(tokenShown), nil }

func (t ServiceToken) known() aggregates.Token {
	return aggregates.Token{Fingerprint: t.Fingerprint(), Tail: t.Tail()}
}

// CreateServiceAccount makes a service account. Token is its first token; the
// caller has made it and shows it once.
type CreateServiceAccount struct {
	Meta    `json:"-"`
	Account events.ID      `json:"-"`
	Token   ServiceToken   `json:"-"`
	Name    string         `json:"name"`
	Scopes  []events.Scope `json:"scopes"`
}

// An AccountAnswer is what is kept of a command on a service account, for its
// repetition.
type AccountAnswer struct {
	Account events.ID `json:"accountId"`
}

// CreateServiceAccount carries out the command of the same name.
func (h *Handler) CreateServiceAccount(ctx context.Context, c CreateServiceAccount) (Result, error) {
	return h.carryAccount(ctx, c.Meta, c, c.Account, func(w *work, a *aggregates.ServiceAccount) ([]events.Event, error) {
		w.claim(events.Claim{Key: events.ServiceAccountKey(c.Name), Owner: c.Account}, aggregates.ErrServiceAccountNameUsed)
		return a.Create(c.Account, c.Name, c.Scopes, c.Token.known())
	})
}

// RotateServiceAccount replaces the account's token by Token, which the caller
// has made and shows once.
type RotateServiceAccount struct {
	Meta    `json:"-"`
	Account events.ID    `json:"accountId"`
	Token   ServiceToken `json:"-"`
}

// RotateServiceAccount carries out the command of the same name.
func (h *Handler) RotateServiceAccount(ctx context.Context, c RotateServiceAccount) (Result, error) {
	return h.carryAccount(ctx, c.Meta, c, c.Account, func(_ *work, a *aggregates.ServiceAccount) ([]events.Event, error) {
		return a.Rotate(c.Token.known())
	})
}

// RevokeServiceAccount disables a service account for good. Its name is free
// for another one.
type RevokeServiceAccount struct {
	Meta    `json:"-"`
	Account events.ID `json:"accountId"`
}

// RevokeServiceAccount carries out the command of the same name.
func (h *Handler) RevokeServiceAccount(ctx context.Context, c RevokeServiceAccount) (Result, error) {
	return h.carryAccount(ctx, c.Meta, c, c.Account, func(w *work, a *aggregates.ServiceAccount) ([]events.Event, error) {
		w.releases = append(w.releases, events.Claim{Key: events.ServiceAccountKey(a.Name()), Owner: c.Account})
		return a.Revoke()
	})
}

// NoteStaleToken records that a token was used which is no longer current.
type NoteStaleToken struct {
	Meta
	Account events.ID
	Tail    string
}

// NoteStaleToken carries out the command of the same name.
func (h *Handler) NoteStaleToken(ctx context.Context, c NoteStaleToken) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		account, err := load[aggregates.ServiceAccount](w, c.Account)
		if err != nil {
			return err
		}
		list, err := account.NoteStaleToken(c.Tail, w.at)
		return w.then(c.Account, list, err)
	})
}

// carryAccount carries out what a person asks of a service account, if they
// administer the workspace at the moment it is stored.
func (h *Handler) carryAccount(ctx context.Context, m Meta, request any, id events.ID, decide func(*work, *aggregates.ServiceAccount) ([]events.Event, error)) (Result, error) {
	return h.carry(ctx, m, request, func(w *work) error {
		if err := look(w, m.Workspace, func(ws *aggregates.Workspace) error { return ws.Allow(m.Actor.ID, events.ManageServiceAccounts) }); err != nil {
			return err
		}
		account, err := load[aggregates.ServiceAccount](w, id)
		if err != nil {
			return err
		}
		w.answer = AccountAnswer{Account: id}
		list, err := decide(w, account)
		return w.then(id, list, err)
	})
}

// AccountOf reads the answer of a command that was repeated.
func AccountOf(r Result) (events.ID, error) {
	var a AccountAnswer
	if err := json.Unmarshal(r.Answer, &a); err != nil {
		return events.ID{}, fmt.Errorf("read kept answer: %w", err)
	}
	return a.Account, nil
}
