package commands

import (
	"fmt"

	"svc/aggregates"
	"svc/events"
)

// refresh takes in what the log has gained since a stream was last folded, and
// all of it if it never was.
func (w *work) refresh(f *fold, empty func() state) error {
	for begun := f.state != nil; ; begun = false {
		if !begun {
			if err := w.restore(f, empty); err != nil {
				return fmt.Errorf("restore %s/%s: %w", f.key.workspace, f.key.stream, err)
			}
		}
		version := f.version
		follows, err := w.follow(f)
		switch {
		case err != nil:
			return fmt.Errorf("load %s/%s: %w", f.key.workspace, f.key.stream, err)
		case follows:
			if w.strategy < locked {
				w.keep(f)
			} else if f.version == version {
				f.contended = false
			}
			return nil
		case w.strategy == locked:
			return &restart{strategy: fresh}
		}
		if err := w.discard(f); err != nil {
			return fmt.Errorf("drop the snapshot of %s/%s: %w", f.key.workspace, f.key.stream, err)
		}
	}
}

// follow lets a fold take in what the stream has gained. It reports false if the
// fold is none of the stream.
func (w *work) follow(f *fold) (bool, error) {
	for {
		records, err := w.streams.Load(w.ctx, f.key.workspace, f.key.stream, max(f.version-1, 0))
		if err != nil {
			return false, err
		}
		if !f.follow(records) {
			return false, nil
		}
		if len(records) < events.LoadLimit {
			return true, nil
		}
	}
}

// discard forgets what is no fold of the log: the log was rewound, as by a
// backup that was restored, or what was read of it has been changed since. Other
// cached folds may be stale as well.
func (w *work) discard(f *fold) error {
	w.handler.logger.ErrorContext(w.ctx, "the log no longer has what was read of it before: remembered streams are read again",
		"workspace", f.key.workspace, "stream", f.key.stream, "version", f.version, "seq", f.seq)
	w.handler.folds.cache.Purge()
	f.forget()
	return w.handler.log.DropSnapshot(w.ctx, f.key.workspace, f.key.stream)
}

// restore begins a fold, from a snapshot if there is one.
func (w *work) restore(f *fold, empty func() state) error {
	if w.strategy == locked { // it may take long
		return &restart{strategy: fresh}
	}
	begun := empty()
	of, ok := begun.(aggregates.Snapshotter)
	if !ok {
		f.state = begun
		return nil
	}
	kept, err := w.handler.log.Snapshot(w.ctx, f.key.workspace, f.key.stream, of.Form())
	if err != nil {
		return err
	}
	if kept == nil {
		f.state, f.due = begun, eventsBetween
		return nil
	}
	if of.Restore(kept.State) != nil { // then it is none
		f.state, f.due = empty(), eventsBetween
		return nil
	}
	f.state, f.version, f.seq = begun, kept.Version, kept.Seq
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
		shot := events.Snapshot{Form: of.Form(), Version: f.version, Seq: f.seq, State: text}
		_ = w.handler.log.SaveSnapshot(w.ctx, f.key.workspace, f.key.stream, shot)
	}
	f.kept(len(text))
}
