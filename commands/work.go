package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
)

// work is a command that is being carried out: the streams it looked at and what
// is to be appended. A stream that it looked at and did not write to must not
// move before the append either: a decision never rests on a right that was
// revoked in between.
type work struct {
	ctx       context.Context
	handler   *Handler
	meta      Meta
	command   events.Command
	decide    func(*work) error
	quota     *quota
	strategy  strategy
	holds     []*hold
	takenKeys []string // that others hold, for which decide chooses another one

	// Of one attempt.
	streams  events.Streams
	at       time.Time
	position int64
	decided  bool // there is a commit
	claims   []events.Claim
	releases []events.Claim
	refusals map[string]*fault.Fault // what to answer if a key is taken; nil decides anew
	answer   any                     // kept for a repetition of the command; never a secret
}

// A hold is a fold that the work looks at, and the events that follow for it.
type hold struct {
	fold    *fold
	held    bool // it is the work's own
	used    bool // in this attempt
	version int
	events  []events.Event
}

// reset forgets the attempt before this one. The folds that the work holds it
// keeps: it has queued for them.
func (w *work) reset() {
	var kept []*hold
	for _, h := range w.holds {
		if h.held {
			kept = append(kept, &hold{fold: h.fold, held: true})
		}
	}
	w.holds, w.at, w.position, w.decided = kept, w.handler.now(), 0, false
	w.claims, w.releases, w.refusals, w.answer = nil, nil, nil, nil
}

// load folds a stream that the command writes to. The aggregate is the work's own
// until it ends.
func load[T any, A aggregates.Aggregate[T]](w *work, stream events.ID) (A, error) {
	h, err := use[T, A](w, stream)
	if err == nil && h.fold.contended && w.strategy < locked {
		err = &restart{strategy: locked}
	}
	if err != nil {
		return nil, err
	}
	return h.fold.state.(A), nil
}

// look lets see look at a stream that the command does not write to. Others need
// not wait until the command ends.
func look[T any, A aggregates.Aggregate[T]](w *work, stream events.ID, see func(A) error) error {
	before := len(w.holds)
	h, err := use[T, A](w, stream)
	if err == nil {
		err = see(h.fold.state.(A))
	}
	if h != nil && len(w.holds) > before {
		h.release()
	}
	return err
}

// allow refuses an actor whose role does not give them a right, at the moment at
// which the command is stored.
func (w *work) allow(right events.Right) error {
	return look(w, w.meta.Workspace, func(ws *aggregates.Workspace) error { return ws.Allow(w.meta.Actor.ID, right) })
}

// use holds the fold of a stream and brings it up to what the strategy asks for.
// If there is an error the hold may be nil.
func use[T any, A aggregates.Aggregate[T]](w *work, stream events.ID) (*hold, error) {
	h, err := w.hold(foldKey{w.meta.Workspace, stream, reflect.TypeFor[T]()})
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

// hold makes a fold the work's own.
func (w *work) hold(key foldKey) (*hold, error) {
	for _, h := range w.holds {
		if h.held && h.fold.key == key {
			return h, nil
		}
	}
	f := w.handler.folds.of(key)
	if w.strategy == locked {
		if !f.tryLock() {
			return nil, &restart{lockedBy: f, strategy: locked}
		}
		w.holds = append(w.holds, &hold{fold: f, held: true})
	} else if err := w.lock(f); err != nil {
		return nil, err
	}
	return w.holds[len(w.holds)-1], nil
}

// lock waits for a fold.
func (w *work) lock(f *fold) error {
	if err := f.lock(w.ctx); err != nil {
		return fmt.Errorf("wait for %s: %w", f.key.stream, err)
	}
	w.holds = append(w.holds, &hold{fold: f, held: true})
	return nil
}

// serialize keeps others of this process who name the same thing out until the work
// ends, and has it decide under the lock of the log.
func (w *work) serialize(thing foldKey) error {
	if w.strategy == locked {
		_, err := w.hold(thing)
		return err
	}
	if _, err := w.hold(thing); err != nil {
		return err
	}
	return &restart{strategy: locked}
}

// then adds what the aggregate of a loaded stream decided.
func (w *work) then(stream events.ID, list []events.Event, err error) error {
	if err != nil {
		return err
	}
	for _, h := range w.holds {
		if h.held && h.used && h.fold.key.stream == stream {
			h.events = append(h.events, list...)
			return nil
		}
	}
	return fmt.Errorf("events for %s, which was not loaded", stream)
}

// claim takes a key for a stream when the work is committed. If somebody else
// holds it the command is answered refusal or, if that is nil, decided anew.
func (w *work) claim(c events.Claim, refusal *fault.Fault) {
	if w.refusals == nil {
		w.refusals = map[string]*fault.Fault{}
	}
	w.claims, w.refusals[c.Key] = append(w.claims, c), refusal
}

// commit lets decide work. It is nil if there is nothing to append.
func (w *work) commit() (*events.Commit, error) {
	if err := w.decide(w); err != nil {
		return nil, err
	}
	c := &events.Commit{
		Workspace: w.meta.Workspace, Envelope: w.meta.Envelope, At: w.at,
		Claims: w.claims, Releases: w.releases, Command: w.command,
	}
	for _, h := range w.holds {
		switch {
		case len(h.events) > 0:
			c.Writes = append(c.Writes, events.Write{Stream: h.fold.key.stream, Version: h.version, Events: h.events})
		case h.used:
			c.Reads = append(c.Reads, events.Read{Stream: h.fold.key.stream, Version: h.version})
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
	if err := w.quota.reserve(w.ctx, w.at, c.Writes); err != nil {
		return nil, err // what is cached may have led to it: it is decided again on the log
	}
	w.decided = true
	return c, nil
}

// take lets the folds take in what was appended.
func (w *work) take(records []events.Record) {
	for _, h := range w.holds {
		if len(h.events) > 0 {
			h.fold.take(records)
			w.keep(h.fold)
		}
	}
}

// release gives back the folds that the work holds.
func (w *work) release() {
	for _, h := range w.holds {
		h.release()
	}
}

func (h *hold) release() {
	if h.held {
		h.held = false
		h.fold.unlock()
	}
}

// forget empties the folds that the work holds: they are read anew.
func (w *work) forget() {
	for _, h := range w.holds {
		if h.held {
			h.fold.forget()
		}
	}
}
