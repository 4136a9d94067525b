// Package commands carries out what people, scripts and the engine ask for.
//
// A command is a struct in the imperative. The [Handler] method of the same
// name folds the streams it concerns, lets their aggregates decide, and appends
// the answer to the log. There is no other way by which anything happens.
//
// Concurrency is optimistic. Streams are cached as folds, which may be stale: the
// append compares versions, of what is written and of what was only read, and a
// conflict is retried on the log as it is then. A command that conflicts again
// decides under the lock of the log, and backs off exponentially where that is in
// vain (retry.go). Commands of one process queue for a fold (folds.go), so that
// they do not conflict with each other.
//
// A command with an idempotency key happens once: its hash and answer are stored
// with its events. What a person may do in a day is a quota, reserved before the
// append and given back when nothing comes of it (quota.go). What is refused is
// recorded under what the command itself says, whoever refuses it (denial.go).
package commands

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

// A Handler carries out commands. Its methods may be called concurrently.
type Handler struct {
	log    Log
	now    func() time.Time
	folds  *folds
	denied *denials
	logger *slog.Logger
	daily  Daily
}

// New returns a handler that appends to log, at the times that now tells.
func New(log Log, now func() time.Time) *Handler {
	return &Handler{log: log, now: now, folds: newFolds(), denied: newDenials(), logger: slog.New(slog.DiscardHandler)}
}

// LogTo lets h say in a log what operators should know. Call it before the first
// command.
func (h *Handler) LogTo(l *slog.Logger) { h.logger = l }

// A Log holds the streams of all workspaces.
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

// Why a command may fail whatever it asks for.
var (
	ErrKeyReused      = fault.New(fault.Conflict, "idempotency_key_reused", "This Idempotency-Key belongs to another request.")
	ErrOutcomeUnknown = fault.New(fault.Unavailable, "outcome_unknown", "The database did not answer in time. "+
		"The change may or may not have been made.")
)

// A Meta is what every command carries beside what it asks for: who asks, in
// which workspace. Key, if not empty, makes the command happen once.
type Meta struct {
	events.Envelope
	Workspace events.ID
	Key       string
}

// A Result says where a command took its log. Replayed tells that it had been
// carried out before, and Answer what was kept of that, as JSON; Idle that there was
// nothing to do.
type Result struct {
	Position int64
	Replayed bool
	Answer   []byte
	Idle     bool
}

// carry lets decide work until its decision is stored. What it finds in memory
// may be old: a decision to do something is then caught by the append, and one
// to do nothing, or a refusal, is made again on what the log says.
func (h *Handler) carry(ctx context.Context, m Meta, request any, decide func(*work) error) (result Result, err error) {
	command, before, err := h.repeated(ctx, m, request)
	if before != nil || err != nil {
		return orNone(before), err
	}
	quota := h.quotaOf(m, request)
	defer func() { quota.settle(ctx, result, err) }()
	within, cancel := withDeadline(ctx)
	defer cancel()
	w := &work{ctx: within, handler: h, meta: m, command: command, decide: decide, quota: quota}
	done, err := w.run()
	taken, _ := errors.AsType[*events.Taken](err)
	switch {
	case err == nil && w.decided:
		return Result{Position: done.Head, Replayed: done.Replayed, Answer: done.Answer}, nil
	case !w.decided:
		// It may have been refused because it has just happened.
		if _, before, lookup := h.repeated(ctx, m, request); before != nil || lookup != nil {
			return orNone(before), lookup
		}
	case taken != nil:
		err = w.refusals[taken.Key]
	case errors.Is(err, events.ErrKeyReused):
		return Result{}, ErrKeyReused
	case errors.Is(err, events.ErrOutcomeUnknown):
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	h.deny(ctx, m, request, err)
	if f := fault.As(err); err != nil && (f == nil || f.Kind == fault.Busy || f.Kind == fault.Unavailable) { // it is logged
		err = fmt.Errorf("%T in %s: %w", request, m.Workspace, err)
	}
	return Result{Position: w.position, Idle: err == nil}, err
}

// repeated looks for the answer of a command that has a key, and returns what
// marks it as carried out if there is none.
func (h *Handler) repeated(ctx context.Context, m Meta, request any) (events.Command, *Result, error) {
	if m.Key == "" {
		return events.Command{}, nil, nil
	}
	text, err := json.Marshal(request)
	if err != nil {
		return events.Command{}, nil, fmt.Errorf("encode command: %w", err)
	}
	hash := sha256.Sum256(fmt.Appendf(text, "%T", request))
	answer, known, ok, err := h.log.Answer(ctx, m.Workspace, m.Actor.ID, m.Key)
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

func orNone(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}
