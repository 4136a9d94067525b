package artifacts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"svc/events"
	"svc/fault"
)

// UnrecordedRetention is how long complete files without an event are kept.
const UnrecordedRetention = 24 * time.Hour

// ErrLog says that the log does not answer.
var ErrLog = errors.New("ask the log for artifacts")

// An AbandonedFunc returns the artifacts to keep of a job whose upload was abandoned. For any other
// job, also an unknown one, ok is false, and nothing of the job may be removed.
type AbandonedFunc func(ctx context.Context, workspace, job events.ID) (keep []events.ID, ok bool, err error)

// SweepUnrecorded removes sealed files without an event, which exist when an upload was abandoned
// just before the event was appended, and returns the number of removed objects. [Swept.Sweep] keeps
// them, as they are sealed. It pauses between folders, to limit the load of a large store. A folder
// that fails does not stop the others; if the log does not answer, the sweep ends with [ErrLog].
func SweepUnrecorded(ctx context.Context, store Store, abandoned AbandonedFunc, now time.Time, pause time.Duration) (
	removed int, err error,
) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	var failed error
	for folder, err := range store.Folders(ctx) {
		if err != nil {
			return removed, err
		}
		n, err := sweepUnrecordedFolder(ctx, store, folder, abandoned, now.Add(-UnrecordedRetention))
		removed += n
		if err != nil {
			failed = fmt.Errorf("sweep files without an event in %s: %w", folder, err)
		}
		if errors.Is(err, ErrLog) {
			return removed, failed
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return removed, ctx.Err()
		}
	}
	return removed, cmp.Or(failed, ctx.Err())
}

func sweepUnrecordedFolder(ctx context.Context, store Store, folder string, abandoned AbandonedFunc, before time.Time) (int, error) {
	workspace, job, ok := parseFolder(folder)
	if !ok {
		return 0, nil // not a job's folder
	}
	objects, err := store.List(ctx, folder)
	if err != nil {
		return 0, err
	}
	if len(objects) == 0 || slices.ContainsFunc(objects, func(o Object) bool { return !o.Modified.Before(before) }) {
		return 0, nil
	}
	keep, ok, err := abandoned(ctx, workspace, job)
	switch {
	case err != nil && fault.IsUnavailable(err):
		return 0, fmt.Errorf("%w: %w", ErrLog, err)
	case err != nil: // of this job alone, as an event of a newer build
		return 0, err
	case !ok:
		return 0, nil
	}
	var names []string
	for _, o := range objects {
		id := parseName(o.Name).artifact
		if !slices.ContainsFunc(keep, func(k events.ID) bool { return k.String() == id }) {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names) // seals are removed before their chunks
	if err := store.Remove(ctx, folder, names...); err != nil {
		return 0, err
	}
	return len(names), store.Clean(ctx, folder, before)
}

// parseFolder is the inverse of folderOf.
func parseFolder(folder string) (workspace, job events.ID, ok bool) {
	first, second, _ := strings.Cut(folder, "/")
	workspace, err := events.ParseID(first)
	if err != nil {
		return workspace, job, false
	}
	job, err = events.ParseID(second)
	return workspace, job, err == nil
}
