package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// serviceAccounts are identities for scripts, each with its own stream.
var serviceAccounts = Noun{
	Name: "service_account", Audience: Administrators, State: true, Rights: true,
	people: [][]decoder{
		decodersOf[ServiceAccountCreated](),
		decodersOf[ServiceAccountRotated](),
		decodersOf[ServiceAccountRevoked](),
		decodersOf[ServiceAccountStaleTokenUsed](),
	},
}

// A Scope is a right that a service account's token can carry.
type Scope string

// The scopes.
const (
	ReadAPI    Scope = "api.read"    // GETs that a Viewer could make, except those for people only
	SubmitJobs Scope = "farm.submit" // submit and cancel build-farm jobs
)

// A Fingerprint is the SHA-256 of a complete token. Its text form is hex.
type Fingerprint [sha256.Size]byte

// MarshalText returns f in hex.
func (f Fingerprint) MarshalText() ([]byte, error) {
	return []byte(hex.EncodeToString(f[:])), nil
}

// UnmarshalText parses hex.
func (f *Fingerprint) UnmarshalText(text []byte) error {
	if len(text) != 2*len(f) {
		return fmt.Errorf("fingerprint of %d digits", len(text))
	}
	_, err := hex.Decode(f[:], text)
	return err
}

// BytesValue and ScanBytes store f in a database as bytes.
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

func (ServiceAccountCreated) Kind() string { return "service_account.created" }
func (e ServiceAccountCreated) target(r *Record) Target {
	return Target{"service_account", r.Stream, "service:" + e.Name}
}
func (e ServiceAccountCreated) changes(*Record) []Change {
	return []Change{{"scopes", nil, e.Scopes}, {"tokenTail", nil, e.Tail}}
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

func (ServiceAccountRotated) Kind() string { return "service_account.rotated" }
func (e ServiceAccountRotated) target(r *Record) Target {
	return Target{"service_account", r.Stream, "service:" + e.Name}
}
func (e ServiceAccountRotated) changes(*Record) []Change {
	return []Change{{"tokenTail", e.FromTail, e.Tail}}
}

// ServiceAccountRevoked says that the account was disabled for good.
type ServiceAccountRevoked struct {
	Account     ID          `json:"accountId"`
	Name        string      `json:"name"`
	Fingerprint Fingerprint `json:"fingerprint"`
	Tail        string      `json:"tail"`
	KeepsName   bool        `json:"keepsName,omitempty"` // no other account can have it; before 0.39, another could
}

func (ServiceAccountRevoked) Kind() string { return "service_account.revoked" }
func (e ServiceAccountRevoked) target(r *Record) Target {
	return Target{"service_account", r.Stream, "service:" + e.Name}
}
func (ServiceAccountRevoked) changes(*Record) []Change {
	return []Change{{"status", "active", "revoked"}}
}

// ServiceAccountStaleTokenUsed says that a token is still in use after it was rotated or
// revoked. It is recorded at most once an hour for an account.
type ServiceAccountStaleTokenUsed struct {
	Account ID        `json:"accountId"`
	Name    string    `json:"name"`
	Tail    string    `json:"tail"` // of the old token
	UsedAt  time.Time `json:"usedAt"`
}

func (ServiceAccountStaleTokenUsed) Kind() string { return "service_account.stale_token_used" }
func (e ServiceAccountStaleTokenUsed) target(r *Record) Target {
	return Target{"service_account", r.Stream, "service:" + e.Name}
}
func (ServiceAccountStaleTokenUsed) changes(*Record) []Change {
	return []Change{} // the event says whose token it was, and nothing changed
}
