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
)

// Unrecorded is how long files lie that are whole and of which no event says so.
const Unrecorded = 24 * time.Hour

// ErrLog says that the log did not answer.
var ErrLog = errors.New("ask the log for artifacts")

// A GivenUp tells which artifacts are kept of a job whose upload was given up. Of any other job,
// also one that nobody knows, ok is false: nothing of it may be removed.
type GivenUp func(ctx context.Context, workspace, job events.ID) (keep []events.ID, ok bool, err error)

// SweepUnrecorded removes the files of which the log never heard, because their upload was given up
// in the moment before, and returns how many objects that were. [Sweep] leaves them: they are sealed.
// It rests between folders, so that a large store is gone through slowly. A folder that cannot be swept
// does not keep others from it; a log that does not answer ends it, with [ErrLog].
func SweepUnrecorded(ctx context.Context, store Store, givenUp GivenUp, now time.Time, rest time.Duration) (removed int, err error) {
	resting := time.NewTicker(rest)
	defer resting.Stop()
	var failed error
	for folder, err := range store.Folders(ctx) {
		if err != nil {
			return removed, err
		}
		n, err := sweepUnrecorded(ctx, store, folder, givenUp, now.Add(-Unrecorded))
		removed += n
		if err != nil {
			failed = fmt.Errorf("sweep files without an event in %s: %w", folder, err)
		}
		if errors.Is(err, ErrLog) {
			return removed, failed
		}
		select {
		case <-resting.C:
		case <-ctx.Done():
			return removed, ctx.Err()
		}
	}
	return removed, cmp.Or(failed, ctx.Err())
}

func sweepUnrecorded(ctx context.Context, store Store, folder string, givenUp GivenUp, before time.Time) (int, error) {
	workspace, job, ok := jobOf(folder)
	if !ok {
		return 0, nil // nothing of ours
	}
	objects, err := store.List(ctx, folder)
	if err != nil {
		return 0, err
	}
	if len(objects) == 0 || slices.ContainsFunc(objects, func(o Object) bool { return !o.Modified.Before(before) }) {
		return 0, nil
	}
	keep, ok, err := givenUp(ctx, workspace, job)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrLog, err)
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
	slices.Sort(names) // a seal goes before its chunks
	if err := store.Remove(ctx, folder, names...); err != nil {
		return 0, err
	}
	return len(names), store.Clean(ctx, folder, before)
}

// jobOf is the other way round of folderOf.
func jobOf(folder string) (workspace, job events.ID, ok bool) {
	first, second, _ := strings.Cut(folder, "/")
	workspace, err := events.ParseID(first)
	if err != nil {
		return workspace, job, false
	}
	job, err = events.ParseID(second)
	return workspace, job, err == nil
}
