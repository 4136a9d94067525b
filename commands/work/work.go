// Package work carries out commands: it loads the streams that one concerns, lets it decide, and
// appends the events that it decided.
//
// A command is any value, and what it does is a [Decide]. Nothing here knows which commands there are.
//
// Concurrency is optimistic. Folds of streams are cached and may be stale: the append
// compares the versions of the streams that were written and of those that were only read,
// and a conflict is retried with the current log. A command that conflicts again decides
// under the lock of the log, and backs off exponentially if that fails (retry.go). Commands
// of one process queue for a fold (folds.go), so that they do not conflict with each other.
//
// A command with an idempotency key happens once: its hash and answer are stored with its
// events. What a person may do in a day is a quota, which is reserved before the append and
// given back if the command fails (quota.go). Refusals are recorded under the kind that the
// command itself names, whoever refuses it (denial.go).
package work

import (
	"context"
	"log/slog"
	"time"

	"svc/events"
	"svc/fault"
)

// A Log stores the streams of all workspaces. store.Store implements it.
type Log interface {
	events.Streams
	Append(context.Context, *events.Commit) (events.Committed, error)
	Exclusively(ctx context.Context, workspace events.ID, decide func(events.Streams) (*events.Commit, error)) (events.Committed, error)
	Snapshot(ctx context.Context, workspace, stream events.ID, form int) (*events.Snapshot, error)
	SaveSnapshot(ctx context.Context, workspace, stream events.ID, s events.Snapshot) error
	DropSnapshot(ctx context.Context, workspace, stream events.ID) error
	Answer(ctx context.Context, workspace, actor events.ID, key string) (answer events.Committed, hash []byte, ok bool, err error)
	Holder(ctx context.Context, key string) (workspace, owner events.ID, err error)
}

// Errors that any command may return.
var (
	ErrKeyReused      = fault.New(fault.Conflict, "idempotency_key_reused", "This Idempotency-Key belongs to another request.")
	ErrOutcomeUnknown = fault.New(fault.Unavailable, "outcome_unknown", "The database did not answer in time. "+
		"The change may or may not have been made.")
)

// A Meta holds what all commands have in common: the caller and the workspace. Key is the
// idempotency key; the command happens once if it is not empty.
type Meta struct {
	events.Envelope
	Workspace events.ID
	Key       string
}

// A Result is the outcome of a command. Position is the log's number after it. Replayed
// means that the command had been carried out before, with Answer as its stored answer, in
// JSON. Idle means that there was nothing to do.
type Result struct {
	Position int64
	Replayed bool
	Answer   []byte
	Idle     bool
}

// A shared is what all units of an executor use.
type shared struct {
	Logger *slog.Logger // for messages to operators

	log   Log
	now   func() time.Time
	folds *folds
}
