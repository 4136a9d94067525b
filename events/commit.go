package events

import (
	"context"
	"errors"
	"iter"
	"time"
)

// A Commit is what one command adds to the log of a workspace, all of it or nothing.
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

// A Write appends events to a stream. Version is the stream's version before it, 0 if the
// stream is new.
type Write struct {
	Stream  ID
	Version int
	Events  []Event
}

// A Read makes the commit conflict unless the stream still has that version, so that what
// the decision relied on is still true.
type Read struct {
	Stream  ID
	Version int
}

// A Claim claims a unique key for Owner, or releases it. A key can be held once in the
// workspace or, if Global, once in total.
type Claim struct {
	Key    string // such as "service_account/ci-bot"
	Owner  ID
	Global bool
}

// A Command is the idempotency key of a commit: however often the commit is sent, it is
// stored once. The zero Command has no key and is not protected.
type Command struct {
	Key    string
	Hash   []byte // of the request; the same key with another request is refused
	Answer []byte // JSON, returned for repetitions; never contains a secret
}

// A Committed is the result of a commit.
type Committed struct {
	Head     int64    // the log's head after it
	Records  []Record // what was appended; none if Replayed
	Replayed bool     // the same command had been stored before
	Answer   []byte   // its answer then, if Replayed
}

// LoadLimit is how many records of a stream are loaded at once. A record takes some
// kilobytes until it has been folded.
const LoadLimit = 2000

// Streams loads the streams that a decision is based on.
type Streams interface {
	// Load returns the records of a stream that follow version, oldest first, up to
	// LoadLimit of them.
	Load(ctx context.Context, workspace, stream ID, version int) ([]Record, error)

	// First returns the first record of a stream, none if the stream is empty.
	First(ctx context.Context, workspace, stream ID) ([]Record, error)
}

// ReadStream reads all records of a stream, oldest first. An error of Load comes last.
func ReadStream(ctx context.Context, from Streams, workspace, stream ID) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for version, more := 0, true; more; {
			list, err := from.Load(ctx, workspace, stream, version)
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, r := range list {
				if !yield(r, nil) {
					return
				}
				version = r.Version
			}
			more = len(list) == LoadLimit
		}
	}
}

// The reasons for which a commit is not stored.
var (
	ErrConflict       = errors.New("a stream has moved on")
	ErrTaken          = errors.New("a key is taken")
	ErrKeyReused      = errors.New("the idempotency key belongs to another request")
	ErrOutcomeUnknown = errors.New("the outcome is unknown")
)

// A TakenError is [ErrTaken] with the key that is taken.
type TakenError struct{ Key string }

func (*TakenError) Error() string { return ErrTaken.Error() } // without the key, which may be somebody's e-mail address

// Is makes every TakenError an ErrTaken.
func (*TakenError) Is(target error) bool { return target == ErrTaken }
