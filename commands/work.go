package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
)

// work is one attempt at a command: the streams it looked at and what is to be
// appended. A stream that it looked at and did not write to must not move
// before the append either: a decision never rests on a right that was revoked
// in between.
type work struct {
	ctx      context.Context
	handler  *Handler
	order    Order
	at       time.Time
	fresh    bool // read what the log has gained since a stream was last folded
	share    *share
	position int64

	loaded   []loaded
	claims   []events.Claim
	releases []events.Claim
	taken    map[string]*fault.Fault // what to answer if the claim of a key is refused
	answer   any                     // kept for a repetition of the command; never a secret
}

// loaded is a fold that the work looked at, and the events that follow for it.
type loaded struct {
	fold    *fold
	held    bool // it is the work's own
	version int
	events  []events.Event
}

// try lets decide work and commits what it decided, if that is anything. Whatever
// happens meanwhile, nothing stays locked. A panic becomes an error, and the folds
// at hand are forgotten: they may have been changed by half.
func (w *work) try(request any, command events.Command, decide func(*work) error) (done events.Committed, decided bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			w.forget()
			err = fmt.Errorf("%T in %s: panic: %v\n%s", request, w.order.Workspace, v, debug.Stack())
			w.fresh = true // deciding again would end as this did
		}
		w.release()
	}()
	if err := decide(w); err != nil {
		return done, false, err
	}
	if decided = w.decided(); !decided {
		return done, false, nil
	}
	if err := w.share.take(w.ctx, w.at); err != nil {
		return done, true, err
	}
	done, err = w.commit(command)
	return done, true, err
}

// load folds a stream. The aggregate is the work's own until it is released.
func load[T any, A aggregates.Aggregate[T]](w *work, stream events.ID) (A, error) {
	f := w.handler.folds.of(foldKey{w.order.Workspace, stream, reflect.TypeFor[T]()})
	if err := f.lock(w.ctx); err != nil {
		return nil, fmt.Errorf("wait for %s: %w", stream, err)
	}
	w.loaded = append(w.loaded, loaded{fold: f, held: true})
	if f.state == nil || w.fresh {
		if err := refresh[T, A](w, f, stream); err != nil {
			return nil, err
		}
	}
	w.loaded[len(w.loaded)-1].version = f.version
	w.position = max(w.position, f.seq)
	return f.state.(A), nil
}

func refresh[T any, A aggregates.Aggregate[T]](w *work, f *fold, stream events.ID) error {
	for begun := f.state != nil; ; begun = false {
		if !begun {
			if err := w.restore(f, func() state { return A(new(T)) }); err != nil {
				return fmt.Errorf("restore %s/%s: %w", w.order.Workspace, stream, err)
			}
		}
		records, err := w.handler.log.Load(w.ctx, w.order.Workspace, stream, max(f.version-1, 0))
		if err != nil {
			return fmt.Errorf("load %s/%s: %w", w.order.Workspace, stream, err)
		}
		if f.follow(records) {
			w.keep(f)
			return nil
		}
		if err := w.setBack(f); err != nil {
			return fmt.Errorf("drop the snapshot of %s/%s: %w", w.order.Workspace, stream, err)
		}
	}
}

// setBack forgets what is no fold of the log: the log was set back, as by a
// backup that was restored, or what was read of it has been changed since. Other
// folds that are remembered may be none either.
func (w *work) setBack(f *fold) error {
	w.handler.logger.ErrorContext(w.ctx, "the log no longer has what was read of it before: remembered streams are read again",
		"workspace", w.order.Workspace, "stream", f.stream, "version", f.version, "seq", f.seq)
	w.handler.folds.cache.Purge()
	f.forget()
	return w.handler.log.DropSnapshot(w.ctx, w.order.Workspace, f.stream)
}

// restore begins a fold, from a snapshot if there is one.
func (w *work) restore(f *fold, empty func() state) error {
	f.state = empty()
	of, ok := f.state.(aggregates.Snapshotter)
	if !ok {
		return nil
	}
	kept, err := w.handler.log.Snapshot(w.ctx, w.order.Workspace, f.stream, of.Form())
	if err != nil {
		f.state = nil
		return err
	}
	if kept == nil {
		f.due = eventsBetween
		return nil
	}
	if of.Restore(kept.State) != nil { // then it is none
		f.state, f.due = empty(), eventsBetween
		return nil
	}
	f.version, f.seq = kept.Version, kept.Seq
	f.kept(len(kept.State))
	return nil
}

// keep takes a snapshot of a fold that has come far since the last one. If that
// fails nothing is lost but time, later.
func (w *work) keep(f *fold) {
	of, ok := f.state.(aggregates.Snapshotter)
	if !ok || f.version < f.due {
		return
	}
	text, err := of.Snapshot()
	if err == nil {
		_ = w.handler.log.Keep(w.ctx, w.order.Workspace, f.stream, events.Snapshot{Form: of.Form(), Version: f.version, Seq: f.seq, State: text})
	}
	f.kept(len(text))
}

// then adds what the aggregate of a loaded stream decided.
func (w *work) then(stream events.ID, list []events.Event, err error) error {
	if err != nil {
		return err
	}
	for i := range w.loaded {
		if w.loaded[i].fold.stream == stream {
			w.loaded[i].events = append(w.loaded[i].events, list...)
			return nil
		}
	}
	return fmt.Errorf("events for %s, which was not loaded", stream)
}

// claim takes a key for a stream when the work is committed. If somebody else
// holds it the command is answered taken or, if that is nil, decided anew.
func (w *work) claim(c events.Claim, taken *fault.Fault) {
	if w.taken == nil {
		w.taken = map[string]*fault.Fault{}
	}
	w.claims, w.taken[c.Key] = append(w.claims, c), taken
}

func (w *work) decided() bool {
	for _, l := range w.loaded {
		if len(l.events) > 0 {
			return true
		}
	}
	return false
}

func (w *work) commit(command events.Command) (events.Committed, error) {
	c := &events.Commit{
		Workspace: w.order.Workspace, Envelope: w.order.Envelope, At: w.at,
		Claims: w.claims, Releases: w.releases, Command: command,
	}
	if command.Key != "" {
		var err error
		if c.Command.Answer, err = json.Marshal(w.answer); err != nil {
			return events.Committed{}, fmt.Errorf("encode answer: %w", err)
		}
	}
	for i := range w.loaded {
		l := &w.loaded[i]
		if len(l.events) == 0 {
			c.Reads = append(c.Reads, events.Read{Stream: l.fold.stream, Version: l.version})
			l.release() // the append sees to it that the stream has not moved
			continue
		}
		c.Writes = append(c.Writes, events.Write{Stream: l.fold.stream, Version: l.version, Events: l.events})
	}
	done, err := w.handler.log.Append(w.ctx, c)
	if err != nil {
		return done, err
	}
	for _, l := range w.loaded {
		if l.held {
			l.fold.take(done.Records)
			w.keep(l.fold)
		}
	}
	return done, nil
}

// release gives back the folds that the work holds.
func (w *work) release() {
	for i := range w.loaded {
		w.loaded[i].release()
	}
}

func (l *loaded) release() {
	if l.held {
		l.held = false
		l.fold.unlock()
	}
}

// forget empties the folds that the work holds: they are read anew.
func (w *work) forget() {
	for _, l := range w.loaded {
		if l.held {
			l.fold.forget()
		}
	}
}
