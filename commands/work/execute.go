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
	*shared
	*denials
	meter
}

// New returns an executor that appends to log. now is its clock. denial returns the record of a refusal of a command,
// without the refusal's code, and false if refusals of it are not recorded.
func New(log Log, now func() time.Time, denial func(request any) (events.CommandDenied, bool)) *Executor {
	s := &shared{Logger: slog.New(slog.DiscardHandler), log: log, now: now, folds: newFolds()}
	return &Executor{shared: s, denials: newDenials(s, denial)}
}

// LogTo sets the logger for messages to operators. Call it before the first command.
func (x *Executor) LogTo(l *slog.Logger) { x.Logger = l }

// Meter sets what is charged for a person's commands, given the events that they will append, and where it is counted.
// Call it before the first command.
func (x *Executor) Meter(counts Counts, charges func(m Meta, request any, decided []events.Event) []Charge) {
	x.meter = meter{counts, charges}
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
	w := &Unit{shared: x.shared, ctx: within, Meta: m, command: command, decide: decide, quota: quota{meter: x.meter, request: request}}
	defer func() { w.quota.settle(ctx, result, err) }()
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
	if unrecorded := x.recordIfRefused(ctx, m, request, err); unrecorded != nil { // the refusal stands
		x.Logger.WarnContext(ctx, "a refused command was not recorded", "workspace", m.Workspace, "actor", m.Actor.ID, "err", unrecorded)
	}
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
	_, err := (&Unit{shared: x.shared, ctx: within, Meta: Meta{Workspace: workspace}, decide: decide}).run()
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
