package work

import (
	"fmt"

	"svc/events"
)

// A snapshotter is an aggregate whose stream may grow long. Its state is saved from time to
// time, so that a process which loads the stream has to read only later events.
type snapshotter interface {
	// Form returns the format of snapshots. It has to be increased whenever the meaning of
	// a snapshot changes, or Apply treats an event differently.
	Form() int
	// Snapshot returns the state as JSON.
	Snapshot() ([]byte, error)
	// Restore sets a zero aggregate to the state of a snapshot.
	Restore(snapshot []byte) error
}

// refresh applies what the stream has gained since it was last loaded. It loads the whole
// stream if the fold is empty.
func (w *Unit) refresh(f *fold, empty func() state) error {
	for begun := f.state != nil; ; begun = false {
		if !begun {
			if err := w.restore(f, empty); err != nil {
				return fmt.Errorf("restore %s/%s: %w", f.key.workspace, f.key.stream, err)
			}
		}
		version := f.version
		follows, err := w.catchUp(f)
		switch {
		case err != nil:
			return fmt.Errorf("load %s/%s: %w", f.key.workspace, f.key.stream, err)
		case follows:
			if w.strategy < locked {
				w.saveSnapshotIfDue(f)
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

// catchUp applies what the stream has gained. It returns false if the fold does not match
// the stream.
func (w *Unit) catchUp(f *fold) (bool, error) {
	for {
		records, err := w.Streams.Load(w.ctx, f.key.workspace, f.key.stream, max(f.version-1, 0))
		if err != nil {
			return false, err
		}
		if !f.catchUp(records) {
			return false, nil
		}
		if len(records) < events.LoadLimit {
			return true, nil
		}
	}
}

// discard clears a fold that does not match the log, because the log was rewound (a backup
// was restored) or changed. It purges the cache, because other folds may be wrong as well,
// and drops the snapshot.
func (w *Unit) discard(f *fold) error {
	w.Logger.ErrorContext(w.ctx, "the log was set back or changed: cached streams are read again",
		"workspace", f.key.workspace, "stream", f.key.stream, "version", f.version, "seq", f.seq)
	w.folds.cache.Purge()
	f.forget()
	return w.log.DropSnapshot(w.ctx, f.key.workspace, f.key.stream)
}

// restore starts an empty fold, from a snapshot if there is one.
func (w *Unit) restore(f *fold, empty func() state) error {
	if w.strategy == locked { // reading a long stream would hold the lock of the log for too long
		return &restart{strategy: fresh}
	}
	begun := empty()
	of, ok := begun.(snapshotter)
	if !ok {
		f.state = begun
		return nil
	}
	kept, err := w.log.Snapshot(w.ctx, f.key.workspace, f.key.stream, of.Form())
	if err != nil {
		return err
	}
	if kept == nil {
		f.state, f.snapshotAt = begun, minEventsPerSnapshot
		return nil
	}
	if err := of.Restore(kept.State); err != nil {
		w.Logger.WarnContext(w.ctx, "a snapshot cannot be used: its stream is read from the start",
			"workspace", f.key.workspace, "stream", f.key.stream, "err", err)
		f.state, f.snapshotAt = empty(), minEventsPerSnapshot
		return nil
	}
	f.state, f.version, f.seq = begun, kept.Version, kept.Seq
	f.scheduleSnapshot(len(kept.State))
	return nil
}

// saveSnapshotIfDue saves a snapshot of a fold if one is due. If that fails, only time is lost.
func (w *Unit) saveSnapshotIfDue(f *fold) {
	of, ok := f.state.(snapshotter)
	if !ok || f.version < f.snapshotAt {
		return
	}
	text, err := of.Snapshot()
	if err == nil {
		shot := events.Snapshot{Form: of.Form(), Version: f.version, Seq: f.seq, State: text}
		err = w.log.SaveSnapshot(w.ctx, f.key.workspace, f.key.stream, shot)
	}
	if err != nil {
		w.Logger.WarnContext(w.ctx, "a snapshot was not saved", "workspace", f.key.workspace, "stream", f.key.stream, "err", err)
	}
	f.scheduleSnapshot(len(text))
}
