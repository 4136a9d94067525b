package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// A Scope is a right that a service account's token can carry.
type Scope string

// The scopes.
const (
	ReadAPI    Scope = "api.read"    // any GET that a Viewer could make
	SubmitJobs Scope = "farm.submit" // submit and cancel build-farm jobs
)

// A Fingerprint is the SHA-256 of a whole service token, written in hex.
type Fingerprint [sha256.Size]byte

// MarshalText returns f in hex.
func (f Fingerprint) MarshalText() ([]byte, error) {
	return []byte(hex.EncodeToString(f[:])), nil
}

// UnmarshalText reads hex.
func (f *Fingerprint) UnmarshalText(text []byte) error {
	if len(text) != 2*len(f) {
		return fmt.Errorf("fingerprint of %d digits", len(text))
	}
	_, err := hex.Decode(f[:], text)
	return err
}

// BytesValue and ScanBytes are how f is kept in a database.
func (f Fingerprint) BytesValue() ([]byte, error) { return f[:], nil }

// ScanBytes is the reverse of BytesValue.
func (f *Fingerprint) ScanBytes(b []byte) error {
	if len(b) != len(f) {
		return fmt.Errorf("fingerprint of %d bytes", len(b))
	}
	copy(f[:], b)
	return nil
}

// ServiceAccountCreated says that a service account and its first token were made.
type ServiceAccountCreated struct {
	Account     ID          `json:"accountId"`
	Name        string      `json:"name"`
	Scopes      []Scope     `json:"scopes"`
	Fingerprint Fingerprint `json:"fingerprint"`
	Tail        string      `json:"tail"` // the token's last four characters
}

// ServiceAccountRotated says that the account's token was replaced.
type ServiceAccountRotated struct {
	Account     ID          `json:"accountId"`
	Name        string      `json:"name"`
	Scopes      []Scope     `json:"scopes"`
	From        Fingerprint `json:"fromFingerprint"`
	FromTail    string      `json:"fromTail"`
	Fingerprint Fingerprint `json:"fingerprint"`
	Tail        string      `json:"tail"`
}

// ServiceAccountRevoked says that the account was disabled for good.
type ServiceAccountRevoked struct {
	Account     ID          `json:"accountId"`
	Name        string      `json:"name"`
	Fingerprint Fingerprint `json:"fingerprint"`
	Tail        string      `json:"tail"`
}

// ServiceAccountStaleTokenUsed says that somebody still uses a token that was
// rotated or revoked. At most one an hour is recorded for an account.
type ServiceAccountStaleTokenUsed struct {
	Account ID        `json:"accountId"`
	Name    string    `json:"name"`
	Tail    string    `json:"tail"` // of the old token
	UsedAt  time.Time `json:"usedAt"`
}

func (ServiceAccountCreated) Kind() string        { return "service_account.created" }
func (ServiceAccountRotated) Kind() string        { return "service_account.rotated" }
func (ServiceAccountRevoked) Kind() string        { return "service_account.revoked" }
func (ServiceAccountStaleTokenUsed) Kind() string { return "service_account.stale_token_used" }
