package commands

import (
	"context"
	"fmt"

	"svc/aggregates"
	"svc/events"
)

// refresh applies what the stream has gained since it was last loaded. It loads the whole
// stream if the fold is empty.
func (w *work) refresh(ctx context.Context, f *fold, empty func() state) error {
	for begun := f.state != nil; ; begun = false {
		if !begun {
			if err := w.restore(ctx, f, empty); err != nil {
				return fmt.Errorf("restore %s/%s: %w", f.key.workspace, f.key.stream, err)
			}
		}
		version := f.version
		follows, err := w.catchUp(ctx, f)
		switch {
		case err != nil:
			return fmt.Errorf("load %s/%s: %w", f.key.workspace, f.key.stream, err)
		case follows:
			if w.strategy < locked {
				w.saveSnapshotIfDue(ctx, f)
			} else if f.version == version {
				f.contended = false
			}
			return nil
		case w.strategy == locked:
			return &restart{strategy: fresh}
		}
		if err := w.discard(ctx, f); err != nil {
			return fmt.Errorf("drop the snapshot of %s/%s: %w", f.key.workspace, f.key.stream, err)
		}
	}
}

// catchUp applies what the stream has gained. It returns false if the fold does not match
// the stream.
func (w *work) catchUp(ctx context.Context, f *fold) (bool, error) {
	for {
		records, err := w.streams.Load(ctx, f.key.workspace, f.key.stream, max(f.version-1, 0))
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
func (w *work) discard(ctx context.Context, f *fold) error {
	w.handler.logger.ErrorContext(ctx, "the log was set back or changed: cached streams are read again",
		"workspace", f.key.workspace, "stream", f.key.stream, "version", f.version, "seq", f.seq)
	w.handler.folds.cache.Purge()
	f.forget()
	return w.handler.log.DropSnapshot(ctx, f.key.workspace, f.key.stream)
}

// restore starts an empty fold, from a snapshot if there is one.
func (w *work) restore(ctx context.Context, f *fold, empty func() state) error {
	if w.strategy == locked { // reading a long stream would hold the lock of the log for too long
		return &restart{strategy: fresh}
	}
	begun := empty()
	of, ok := begun.(aggregates.Snapshotter)
	if !ok {
		f.state = begun
		return nil
	}
	kept, err := w.handler.log.Snapshot(ctx, f.key.workspace, f.key.stream, of.Form())
	if err != nil {
		return err
	}
	if kept == nil {
		f.state, f.snapshotAt = begun, minEventsPerSnapshot
		return nil
	}
	if err := of.Restore(kept.State); err != nil {
		w.handler.logger.WarnContext(ctx, "a snapshot cannot be used: its stream is read from the start",
			"workspace", f.key.workspace, "stream", f.key.stream, "err", err)
		f.state, f.snapshotAt = empty(), minEventsPerSnapshot
		return nil
	}
	f.state, f.version, f.seq = begun, kept.Version, kept.Seq
	f.scheduleSnapshot(len(kept.State))
	return nil
}

// saveSnapshotIfDue saves a snapshot of a fold if one is due. If that fails, only time is lost.
func (w *work) saveSnapshotIfDue(ctx context.Context, f *fold) {
	of, ok := f.state.(aggregates.Snapshotter)
	if !ok || f.version < f.snapshotAt {
		return
	}
	text, err := of.Snapshot()
	if err == nil {
		shot := events.Snapshot{Form: of.Form(), Version: f.version, Seq: f.seq, State: text}
		err = w.handler.log.SaveSnapshot(ctx, f.key.workspace, f.key.stream, shot)
	}
	if err != nil {
		w.handler.logger.WarnContext(ctx, "a snapshot was not saved", "workspace", f.key.workspace, "stream", f.key.stream, "err", err)
	}
	f.scheduleSnapshot(len(text))
}
