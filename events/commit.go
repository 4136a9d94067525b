package events

import (
	"context"
	"errors"
	"time"
)

// A Commit is what one command adds to the log of a workspace: all of it or
// nothing.
type Commit struct {
	Workspace ID
	Envelope  Envelope
	At        time.Time
	Writes    []Write
	Reads     []Read
	Claims    []Claim
	Releases  []Claim
	Command   Command
}

// A Write appends events to a stream whose version is Version, 0 if it is new.
type Write struct {
	Stream  ID
	Version int
	Events  []Event
}

// A Read makes the commit conflict unless Version is still that of the stream:
// what was decided by it is then still true.
type Read struct {
	Stream  ID
	Version int
}

// A Claim takes a key for Owner, or gives it back. The key can be held once in
// the workspace or, if Global, once at all.
type Claim struct {
	Key    string // such as "service_account/ci-bot"
	Owner  ID
	Global bool
}

// A Command makes a commit happen once however often it is asked for. The zero
// Command has no such guard.
type Command struct {
	Key    string
	Hash   []byte // of the request; another request under the same key is refused
	Answer []byte // JSON, stored for the repetition; never a secret
}

// A Committed says where a commit ended up.
type Committed struct {
	Head     int64    // the log's number after it
	Records  []Record // what was appended; none if Replayed
	Replayed bool     // the command had been carried out before
	Answer   []byte   // what it was answered then, if Replayed
}

// LoadLimit is how many records of a stream are in memory at once: each takes some
// kilobytes until it is folded.
const LoadLimit = 2000

// Streams are what a decision is made by.
type Streams interface {
	// Load returns the records of a stream that follow version, oldest first, up to
	// LoadLimit of them.
	Load(ctx context.Context, workspace, stream ID, version int) ([]Record, error)
}

// Why a commit may not be stored.
var (
	ErrConflict       = errors.New("a stream has moved on")
	ErrTaken          = errors.New("a key is taken")
	ErrKeyReused      = errors.New("the idempotency key belongs to another request")
	ErrOutcomeUnknown = errors.New("the outcome is unknown")
)

// A Taken is the [ErrTaken] of one key.
type Taken struct{ Key string }

func (*Taken) Error() string { return ErrTaken.Error() } // the key may be somebody's address

// Is makes every Taken an ErrTaken.
func (*Taken) Is(target error) bool { return target == ErrTaken }
