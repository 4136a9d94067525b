package work

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"svc/events"
	"svc/fault"
)

// An Aggregate is a *T that is the fold of a stream's events and who caused each. The zero T is the
// fold of an empty stream.
type Aggregate[T any] interface {
	*T
	Apply(e events.Event, by events.Actor)
}

// A Unit is a command that is being carried out: the streams that it uses and the events that
// it will append. A stream that was read and not written to must not change before the
// append either, so a decision never relies on a right that was revoked in between.
type Unit struct {
	Meta Meta

	*shared
	ctx       context.Context // ends at the command's deadline
	command   events.Command
	decide    Decide
	strategy  strategy
	held      []*heldFold
	takenKeys []string // keys that others hold and for which decide has to choose another one
	quota     quota

	// The fields below are of one attempt.
	Streams   events.Streams // the log, as the decision has to read it
	Now       time.Time      // exactNow cut to milliseconds, as times in events are formatted
	Answer    any            // stored for repetitions of the command; never contains a secret
	exactNow  time.Time      // the time of the commit
	position  int64
	hasCommit bool
	claims    []events.Claim
	releases  []events.Claim
	refusals  map[string]*fault.Fault // what to return if a key is taken; nil: decide again
}

// Context returns the context of the command, which ends at its deadline.
func (w *Unit) Context() context.Context { return w.ctx }

// A strategy says how a decision is kept consistent with concurrent changes.
type strategy int

// The strategies. A command starts with the first, and takes the next one when it
// conflicts.
const (
	cached strategy = iota // optimistic, on the cached folds: the append compares versions
	fresh                  // optimistic, on folds that were just refreshed from the log
	locked                 // pessimistic, on the log while nobody else can append to it
)

// A restart makes a command decide again under another strategy. A command that has locked
// the log must not wait for a fold that another command has locked: that command may be
// waiting for the log, which would be a deadlock.
type restart struct {
	lockedBy *fold // locked by another command; wait for it first. nil: a stream has to be loaded first
	strategy strategy
}

func (*restart) Error() string { return "not while the log is locked" }

// A heldFold is a fold that the command uses, and the events that it adds to its stream.
type heldFold struct {
	fold    *fold
	held    bool // the command has locked the fold
	kept    bool // until the command ends; a fold that is only inspected is unlocked at once
	used    bool // it was loaded in this attempt
	version int
	events  []events.Event
}

// reset forgets the previous attempt. Locks on folds are kept, because the command has
// queued for them.
func (w *Unit) reset() {
	var kept []*heldFold
	for _, h := range w.held {
		if h.held {
			kept = append(kept, &heldFold{fold: h.fold, held: true, kept: h.kept})
		}
	}
	w.held, w.exactNow, w.position, w.hasCommit = kept, w.now(), 0, false
	w.Now = w.exactNow.Truncate(time.Millisecond)
	w.claims, w.releases, w.refusals, w.Answer = nil, nil, nil, nil
}

// A Decide decides what a command appends, and adds it to the unit.
type Decide func(*Unit) error

// On returns a Decide for one stream. It adds the events that decide returns for the
// stream's aggregate.
func On[T any, A Aggregate[T]](stream events.ID, decide func(*Unit, A) ([]events.Event, error)) Decide {
	return func(w *Unit) error {
		h, err := keepFold[T, A](w, stream)
		if err != nil {
			return err
		}
		list, err := decide(w, h.fold.state.(A))
		if err == nil {
			h.events = append(h.events, list...)
		}
		return err
	}
}

// Load returns the aggregate of a stream that the command writes to, and keeps it locked
// until the command ends.
func Load[T any, A Aggregate[T]](w *Unit, stream events.ID) (A, error) {
	h, err := keepFold[T, A](w, stream)
	if err != nil {
		return nil, err
	}
	return h.fold.state.(A), nil
}

// keepFold locks the fold of a stream until the command ends.
func keepFold[T any, A Aggregate[T]](w *Unit, stream events.ID) (*heldFold, error) {
	h, err := useFold[T, A](w, stream)
	if h != nil {
		h.kept = true
	}
	if err == nil && h.fold.contended && w.strategy < locked {
		err = &restart{strategy: locked}
	}
	return h, err
}

// Inspect calls do with the aggregate of a stream that the command does not write to, or only
// after it has locked others. It unlocks the aggregate afterwards, so that other commands need not wait.
func Inspect[T any, A Aggregate[T]](w *Unit, stream events.ID, do func(A) error) error {
	h, err := useFold[T, A](w, stream)
	if err == nil {
		err = do(h.fold.state.(A))
	}
	if h != nil && !h.kept { // also one that the command had to wait for before it locked the log
		h.release()
	}
	return err
}

// useFold locks the fold of a stream and refreshes it as the strategy requires. If there is an
// error, the heldFold may be nil.
func useFold[T any, A Aggregate[T]](w *Unit, stream events.ID) (*heldFold, error) {
	h, err := w.lockFold(foldKey{w.Meta.Workspace, stream, reflect.TypeFor[T]()})
	if err != nil {
		return nil, err
	}
	if f := h.fold; !h.used && (f.state == nil || w.strategy > cached) {
		if err := w.refresh(f, func() state { return A(new(T)) }); err != nil {
			return h, err
		}
	}
	h.used, h.version = true, h.fold.version
	w.position = max(w.position, h.fold.seq)
	return h, nil
}

// lockFold locks a fold, unless the command holds it already.
func (w *Unit) lockFold(key foldKey) (*heldFold, error) {
	for _, h := range w.held {
		if h.held && h.fold.key == key {
			return h, nil
		}
	}
	f := w.folds.get(key)
	if w.strategy == locked {
		if !f.tryLock() {
			return nil, &restart{lockedBy: f, strategy: locked}
		}
		w.held = append(w.held, &heldFold{fold: f, held: true})
	} else if err := w.waitFor(f); err != nil {
		return nil, err
	}
	return w.held[len(w.held)-1], nil
}

// waitFor waits for a fold and locks it.
func (w *Unit) waitFor(f *fold) error {
	if err := f.lock(w.ctx); err != nil {
		return fmt.Errorf("wait for %s: %w", f.key.stream, err)
	}
	w.held = append(w.held, &heldFold{fold: f, held: true})
	return nil
}

// Serialize makes other commands of this process that serialize the same id for the same T
// wait, and makes the command decide under the lock of the log.
func Serialize[T any](w *Unit, id events.ID) error {
	h, err := w.lockFold(foldKey{w.Meta.Workspace, id, reflect.TypeFor[T]()})
	if err != nil {
		return err
	}
	h.kept = true
	if w.strategy == locked {
		return nil
	}
	return &restart{strategy: locked}
}

// AddEvents adds the events that the aggregate of a loaded stream decided.
func (w *Unit) AddEvents(stream events.ID, list []events.Event, err error) error {
	if err != nil {
		return err
	}
	h := w.using(stream)
	if h == nil {
		return fmt.Errorf("events for %s, which was not loaded", stream)
	}
	h.events = append(h.events, list...)
	return nil
}

// VersionOf returns the version at which the command uses a stream, 0 if it does not use it.
func (w *Unit) VersionOf(stream events.ID) int {
	if h := w.using(stream); h != nil {
		return h.version
	}
	return 0
}

// using returns the fold of a stream that the command uses, or nil.
func (w *Unit) using(stream events.ID) *heldFold {
	for _, h := range w.held {
		if h.held && h.used && h.fold.key.stream == stream {
			return h
		}
	}
	return nil
}

// Claim claims a key when the command is stored. If somebody else holds the key, the
// command returns refusal or, if that is nil, decides again.
func (w *Unit) Claim(c events.Claim, refusal *fault.Fault) {
	if w.refusals == nil {
		w.refusals = map[string]*fault.Fault{}
	}
	w.claims, w.refusals[c.Key] = append(w.claims, c), refusal
}

// Release releases a key when the command is stored.
func (w *Unit) Release(c events.Claim) { w.releases = append(w.releases, c) }

// Taken reports whether an earlier attempt of the command found that others hold a key.
func (w *Unit) Taken(key string) bool { return slices.Contains(w.takenKeys, key) }

func (w *Unit) claimsGlobally(key string) bool {
	return slices.ContainsFunc(w.claims, func(c events.Claim) bool { return c.Key == key && c.Global })
}

// buildCommit runs decide and returns the commit to append, nil if there is nothing to append.
func (w *Unit) buildCommit() (*events.Commit, error) {
	if err := w.decide(w); err != nil {
		return nil, err
	}
	c := &events.Commit{
		Workspace: w.Meta.Workspace, Envelope: w.Meta.Envelope, At: w.exactNow,
		Claims: w.claims, Releases: w.releases, Command: w.command,
	}
	for _, h := range w.held {
		if len(h.events) > 0 {
			c.Writes = append(c.Writes, events.Write{Stream: h.fold.key.stream, Version: h.version, Events: h.events})
		}
	}
	for _, h := range w.held {
		read := events.Read{Stream: h.fold.key.stream, Version: h.version}
		if h.used && len(h.events) == 0 && !writesAfter(c, read) {
			c.Reads = append(c.Reads, read)
		}
	}
	if len(c.Writes) == 0 {
		return nil, nil
	}
	if w.command.Key != "" {
		var err error
		if c.Command.Answer, err = json.Marshal(w.Answer); err != nil {
			return nil, fmt.Errorf("encode answer: %w", err)
		}
	}
	if err := w.quota.reserve(w.ctx, w.Meta, w.exactNow, c.Writes); err != nil {
		return nil, err // it may rest on stale folds, so it is decided again on the log
	}
	w.hasCommit = true
	return c, nil
}

// writesAfter reports whether c continues a stream from where it was read, as it does if the stream was
// inspected before it was loaded. The write compares the version, and the read would find it changed by
// the write.
func writesAfter(c *events.Commit, read events.Read) bool {
	return slices.ContainsFunc(c.Writes, func(write events.Write) bool {
		return write.Stream == read.Stream && write.Version == read.Version
	})
}

// release unlocks the folds that the command holds.
func (w *Unit) release() {
	for _, h := range w.held {
		h.release()
	}
}

func (h *heldFold) release() {
	if h.held {
		h.held = false
		h.fold.unlock()
	}
}

// forget clears the folds that the command holds, so that they are loaded again.
func (w *Unit) forget() {
	for _, h := range w.held {
		if h.held {
			h.fold.forget()
		}
	}
}
