package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
)

// work is a command that is being carried out: the folds that it uses and the events that
// it will append. A stream that was read and not written to must not change before the
// append either, so a decision never relies on a right that was revoked in between.
type work struct {
	handler   *Handler
	meta      Meta
	command   events.Command
	decide    decideFunc
	quota     *quota
	strategy  strategy
	folds     []*heldFold
	takenKeys []string // keys that others hold and for which decide has to choose another one

	// The fields below are of one attempt.
	streams   events.Streams
	exactNow  time.Time // the time of the commit
	now       time.Time // exactNow cut to milliseconds, as times in events are formatted
	position  int64
	hasCommit bool
	claims    []events.Claim
	releases  []events.Claim
	refusals  map[string]*fault.Fault // what to return if a key is taken; nil: decide again
	answer    any                     // stored for repetitions of the command; never contains a secret
}

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
func (w *work) reset() {
	var kept []*heldFold
	for _, h := range w.folds {
		if h.held {
			kept = append(kept, &heldFold{fold: h.fold, held: true, kept: h.kept})
		}
	}
	w.folds, w.exactNow, w.position, w.hasCommit = kept, w.handler.now(), 0, false
	w.now = w.exactNow.Truncate(time.Millisecond)
	w.claims, w.releases, w.refusals, w.answer = nil, nil, nil, nil
}

// A decideFunc decides what a command appends, and adds it to the work. Its context ends at the
// command's deadline.
type decideFunc func(context.Context, *work) error

// onStream returns a decideFunc for one stream. It adds the events that decide returns for the
// stream's aggregate.
func onStream[T any, A aggregates.Aggregate[T]](
	stream events.ID, decide func(context.Context, *work, A) ([]events.Event, error),
) decideFunc {
	return func(ctx context.Context, w *work) error {
		aggregate, err := load[T, A](ctx, w, stream)
		if err != nil {
			return err
		}
		list, err := decide(ctx, w, aggregate)
		return w.addEvents(stream, list, err)
	}
}

// ifAllowed returns decide for actors whose role has the right at the moment at which the command is
// stored, and a refusal for others.
func ifAllowed(right events.Right, decide decideFunc) decideFunc {
	return func(ctx context.Context, w *work) error {
		if err := w.allow(ctx, right); err != nil {
			return err
		}
		return decide(ctx, w)
	}
}

// load returns the aggregate of a stream that the command writes to, and keeps it locked
// until the command ends.
func load[T any, A aggregates.Aggregate[T]](ctx context.Context, w *work, stream events.ID) (A, error) {
	h, err := useFold[T, A](ctx, w, stream)
	if h != nil {
		h.kept = true
	}
	if err == nil && h.fold.contended && w.strategy < locked {
		err = &restart{strategy: locked}
	}
	if err != nil {
		return nil, err
	}
	return h.fold.state.(A), nil
}

// inspect calls do with the aggregate of a stream that the command does not write to, or only
// after it has locked others. It unlocks the aggregate afterwards, so that other commands need not wait.
func inspect[T any, A aggregates.Aggregate[T]](ctx context.Context, w *work, stream events.ID, do func(A) error) error {
	h, err := useFold[T, A](ctx, w, stream)
	if err == nil {
		err = do(h.fold.state.(A))
	}
	if h != nil && !h.kept { // also one that the command had to wait for before it locked the log
		h.release()
	}
	return err
}

// allow returns an error unless the actor's role has the right, as of the moment at which
// the command is stored.
func (w *work) allow(ctx context.Context, right events.Right) error {
	return inspect(ctx, w, w.meta.Workspace, func(ws *aggregates.Workspace) error { return ws.Allow(w.meta.Actor.ID, right) })
}

// useFold locks the fold of a stream and refreshes it as the strategy requires. If there is an
// error, the heldFold may be nil.
func useFold[T any, A aggregates.Aggregate[T]](ctx context.Context, w *work, stream events.ID) (*heldFold, error) {
	h, err := w.lockFold(ctx, foldKey{w.meta.Workspace, stream, reflect.TypeFor[T]()})
	if err != nil {
		return nil, err
	}
	if f := h.fold; !h.used && (f.state == nil || w.strategy > cached) {
		if err := w.refresh(ctx, f, func() state { return A(new(T)) }); err != nil {
			return h, err
		}
	}
	h.used, h.version = true, h.fold.version
	w.position = max(w.position, h.fold.seq)
	return h, nil
}

// lockFold locks a fold, unless the command holds it already.
func (w *work) lockFold(ctx context.Context, key foldKey) (*heldFold, error) {
	for _, h := range w.folds {
		if h.held && h.fold.key == key {
			return h, nil
		}
	}
	f := w.handler.folds.get(key)
	if w.strategy == locked {
		if !f.tryLock() {
			return nil, &restart{lockedBy: f, strategy: locked}
		}
		w.folds = append(w.folds, &heldFold{fold: f, held: true})
	} else if err := w.waitFor(ctx, f); err != nil {
		return nil, err
	}
	return w.folds[len(w.folds)-1], nil
}

// waitFor waits for a fold and locks it.
func (w *work) waitFor(ctx context.Context, f *fold) error {
	if err := f.lock(ctx); err != nil {
		return fmt.Errorf("wait for %s: %w", f.key.stream, err)
	}
	w.folds = append(w.folds, &heldFold{fold: f, held: true})
	return nil
}

// serialize locks key, so that other commands of this process that name the same key
// wait, and makes the command decide under the lock of the log.
func (w *work) serialize(ctx context.Context, key foldKey) error {
	h, err := w.lockFold(ctx, key)
	if err != nil {
		return err
	}
	h.kept = true
	if w.strategy == locked {
		return nil
	}
	return &restart{strategy: locked}
}

// addEvents adds the events that the aggregate of a loaded stream decided.
func (w *work) addEvents(stream events.ID, list []events.Event, err error) error {
	if err != nil {
		return err
	}
	for _, h := range w.folds {
		if h.held && h.used && h.fold.key.stream == stream {
			h.events = append(h.events, list...)
			return nil
		}
	}
	return fmt.Errorf("events for %s, which was not loaded", stream)
}

// versionOf returns the version at which the command uses a stream, 0 if it does not use it.
func (w *work) versionOf(stream events.ID) int {
	for _, h := range w.folds {
		if h.held && h.used && h.fold.key.stream == stream {
			return h.version
		}
	}
	return 0
}

// claim claims a key when the command is stored. If somebody else holds the key, the
// command returns refusal or, if that is nil, decides again.
func (w *work) claim(c events.Claim, refusal *fault.Fault) {
	if w.refusals == nil {
		w.refusals = map[string]*fault.Fault{}
	}
	w.claims, w.refusals[c.Key] = append(w.claims, c), refusal
}

// buildCommit runs decide and returns the commit to append, nil if there is nothing to append.
func (w *work) buildCommit(ctx context.Context) (*events.Commit, error) {
	if err := w.decide(ctx, w); err != nil {
		return nil, err
	}
	c := &events.Commit{
		Workspace: w.meta.Workspace, Envelope: w.meta.Envelope, At: w.exactNow,
		Claims: w.claims, Releases: w.releases, Command: w.command,
	}
	for _, h := range w.folds {
		if len(h.events) > 0 {
			c.Writes = append(c.Writes, events.Write{Stream: h.fold.key.stream, Version: h.version, Events: h.events})
		}
	}
	for _, h := range w.folds {
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
		if c.Command.Answer, err = json.Marshal(w.answer); err != nil {
			return nil, fmt.Errorf("encode answer: %w", err)
		}
	}
	if err := w.quota.reserve(ctx, w.exactNow, c.Writes); err != nil {
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

// applyToFolds applies the appended records to the folds.
func (w *work) applyToFolds(ctx context.Context, records []events.Record) {
	for _, h := range w.folds {
		if len(h.events) > 0 {
			h.fold.apply(records)
			w.saveSnapshotIfDue(ctx, h.fold)
		}
	}
}

// release unlocks the folds that the command holds.
func (w *work) release() {
	for _, h := range w.folds {
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
func (w *work) forget() {
	for _, h := range w.folds {
		if h.held {
			h.fold.forget()
		}
	}
}
