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
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"svc/events"
	"svc/fault"
)

// An Executor carries out commands. Its methods may be called concurrently.
type Executor struct {
	Logger *slog.Logger // for messages to operators

	log     Log
	now     func() time.Time
	folds   *folds
	denied  *denials
	denial  func(request any) (events.CommandDenied, bool)
	counts  Counts
	charges func(m Meta, request any, decided []events.Event) []Charge
}

// New returns an executor that appends to log. now is its clock. denial returns the record of a refusal of a command,
// without the refusal's code, and false if refusals of it are not recorded.
func New(log Log, now func() time.Time, denial func(request any) (events.CommandDenied, bool)) *Executor {
	return &Executor{
		log: log, now: now, folds: newFolds(), denied: newDenials(), denial: denial, Logger: slog.New(slog.DiscardHandler),
	}
}

// LogTo sets the logger for messages to operators. Call it before the first command.
func (x *Executor) LogTo(l *slog.Logger) { x.Logger = l }

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

// Execute runs decide until its decision is stored. Cached folds may be stale. If decide
// wants to write, the append notices that; if it refuses or does nothing, it is run again
// on what the log says.
func (x *Executor) Execute(ctx context.Context, m Meta, request any, decide Decide) (result Result, err error) {
	var command events.Command
	if m.Key != "" {
		var before *Result
		if command, before, err = x.repeated(ctx, m, request); before != nil || err != nil {
			return valueOrZero(before), err
		}
	}
	within, cancel := withDeadline(ctx)
	defer cancel()
	w := &Unit{executor: x, ctx: within, Meta: m, request: request, command: command, decide: decide}
	defer func() { w.settle(ctx, result, err) }()
	done, err := w.run()
	taken, _ := errors.AsType[*events.TakenError](err)
	switch {
	case err == nil && w.hasCommit:
		return Result{Position: done.Head, Replayed: done.Replayed, Answer: done.Answer}, nil
	case !w.hasCommit && m.Key != "":
		// It may have been refused because the same command has just been carried out.
		if _, before, lookup := x.repeated(ctx, m, request); before != nil || lookup != nil {
			return valueOrZero(before), lookup
		}
	case taken != nil && w.claimsGlobally(taken.Key): // what exists in other workspaces is not about rights
		return Result{Position: w.position}, w.refusals[taken.Key]
	case taken != nil:
		err = w.refusals[taken.Key]
	case errors.Is(err, events.ErrKeyReused):
		return Result{}, ErrKeyReused
	case errors.Is(err, events.ErrOutcomeUnknown):
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	x.recordIfRefused(ctx, m, request, err)
	if f := fault.As(err); err != nil && (f == nil || f.Kind == fault.Busy || f.Kind == fault.Unavailable) { // such errors are logged
		err = fmt.Errorf("%T in %s: %w", request, m.Workspace, err)
	}
	return Result{Position: w.position, Idle: err == nil}, err
}

// Read carries out a decision that appends nothing, on streams as they are in the log, within the time of a command.
// decide may be called again with newer ones.
func (x *Executor) Read(ctx context.Context, workspace events.ID, decide Decide) error {
	within, cancel := withDeadline(ctx)
	defer cancel()
	_, err := (&Unit{executor: x, ctx: within, Meta: Meta{Workspace: workspace}, decide: decide}).run()
	return err
}

// repeated returns the stored result of a command, which has an idempotency key, or nil and the
// key and hash to store with it if it has not been carried out.
func (x *Executor) repeated(ctx context.Context, m Meta, request any) (events.Command, *Result, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return events.Command{}, nil, fmt.Errorf("encode command: %w", err)
	}
	hash := sha256.Sum256(fmt.Appendf(text, "%T", request))
	answer, known, ok, err := x.log.Answer(ctx, m.Workspace, m.Actor.ID, m.Key)
	switch {
	case err != nil:
		return events.Command{}, nil, fmt.Errorf("look up command: %w", err)
	case !ok:
		return events.Command{Key: m.Key, Hash: hash[:]}, nil, nil
	case string(known) != string(hash[:]):
		return events.Command{}, nil, ErrKeyReused
	}
	return events.Command{}, &Result{Position: answer.Head, Replayed: true, Answer: answer.Answer}, nil
}

func valueOrZero(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}
