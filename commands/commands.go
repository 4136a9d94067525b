// Package commands carries out what people, scripts and the engine ask for.
//
// A command is a struct named in the imperative. The [Handler] method of the same name
// loads the streams that it concerns, lets their aggregates decide, and appends the
// resulting events to the log (package work). Nothing else appends what callers ask for.
package commands

import (
	"context"
	"time"

	"svc/aggregates"
	"svc/commands/work"
	"svc/events"
)

// A Handler carries out commands. Its methods may be called concurrently.
type Handler struct {
	*work.Executor
	Views Views // set before the first command that asks
	log   Log
	now   func() time.Time
}

// New returns a handler that appends to log. now is its clock.
func New(log Log, now func() time.Time) *Handler {
	return &Handler{Executor: work.New(log, now, recordOf), log: log, now: now}
}

// A Log stores the streams of all workspaces.
type Log = work.Log

// A Meta holds what all commands have in common.
type Meta = work.Meta

// A Result is the outcome of a command.
type Result = work.Result

// Errors that any command may return.
var (
	ErrKeyReused      = work.ErrKeyReused
	ErrOutcomeUnknown = work.ErrOutcomeUnknown
)

// SystemMeta returns the metadata of a command that the service issues itself.
func SystemMeta(workspace events.ID) Meta {
	return Meta{Workspace: workspace, Envelope: events.Envelope{
		Actor: events.Actor{Type: events.BySystem, Name: "system"}, Origin: events.FromSystem,
	}}
}

// A Deniable command is one whose refusal is recorded, whether its route's guard or its
// aggregate refuses it. denial returns the record, without the refusal's code.
type Deniable interface {
	denial() events.CommandDenied
}

func recordOf(request any) (events.CommandDenied, bool) {
	if c, ok := request.(Deniable); ok {
		return c.denial(), true
	}
	return events.CommandDenied{}, false
}

// RecordDenial records that a guard refused a command; see [work.Executor.RecordDenial].
func (h *Handler) RecordDenial(ctx context.Context, m Meta, command Deniable, refusal error) error {
	return h.Executor.RecordDenial(ctx, m, command.denial(), refusal)
}

// denialOf returns the record of a refused command that would have caused e.
func denialOf(e events.Event, target events.ID) events.CommandDenied {
	return events.CommandDenied{Action: e.Kind(), Target: target}
}

// ifAllowed returns decide for actors whose role has the right at the moment at which the command is
// stored, and a refusal for others.
func ifAllowed(right events.Right, decide work.Decide) work.Decide {
	return func(w *work.Unit) error {
		if err := allow(w, right); err != nil {
			return err
		}
		return decide(w)
	}
}

// allow returns an error unless the actor's role has the right, as of the moment at which
// the command is stored.
func allow(w *work.Unit, right events.Right) error {
	return work.Inspect(w, w.Meta.Workspace, func(ws *aggregates.Workspace) error { return ws.Allow(w.Meta.Actor.ID, right) })
}
