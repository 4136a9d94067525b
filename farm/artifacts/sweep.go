package artifacts

import (
	"context"
	"fmt"
	"slices"
	"time"

	"svc/events"
)

// ChunkRetention is how long chunks that are not in a seal are kept. No upload takes longer: it
// starts after the job's end and is abandoned after [events.ArtifactUploadWindow].
const ChunkRetention = events.ArtifactUploadWindow + 10*time.Minute

// A Swept remembers what earlier sweeps of a store left to do. The zero value is that of a store that was
// never swept.
type Swept struct {
	last   time.Time       // when the last sweep began that reached all folders
	failed map[string]bool // folders that failed in it
}

// Sweep removes the chunks of uploads that ended before their files were complete, and returns the
// number of removed objects. It does not read the seals of folders that were swept and in which nothing
// was put since. It pauses between folders, to limit the load of a large store. A folder that fails does
// not stop the others.
func (s *Swept) Sweep(ctx context.Context, store Store, now time.Time, pause time.Duration) (removed int, err error) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	before := now.Add(-ChunkRetention)
	var last error
	failed := map[string]bool{}
	for folder, err := range store.Folders(ctx) {
		if err != nil {
			return removed, err
		}
		var settled time.Time
		if !s.failed[folder] {
			settled = s.last.Add(-ChunkRetention)
		}
		n, err := sweepFolder(ctx, store, folder, before, settled)
		removed += n
		if err != nil {
			failed[folder], last = true, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return removed, ctx.Err()
		}
	}
	if ctx.Err() != nil {
		return removed, ctx.Err()
	}
	s.last, s.failed = now, failed
	if last != nil {
		return removed, fmt.Errorf("sweep artifacts: %w", last)
	}
	return removed, nil
}

// RemoveJob removes all objects of a job. Its upload must have ended.
func RemoveJob(ctx context.Context, store Store, workspace, job events.ID) error {
	folder := folderOf(workspace, job)
	objects, err := store.List(ctx, folder)
	if err != nil {
		return err
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.Name)
	}
	slices.Sort(names) // seals are removed before their chunks
	if err := store.Remove(ctx, folder, names...); err != nil {
		return err
	}
	return store.Clean(ctx, folder, time.Now())
}

// sweepFolder sweeps a folder of objects from before a time. All that is from before settled was needed
// when it was swept last.
func sweepFolder(ctx context.Context, store Store, folder string, before, settled time.Time) (int, error) {
	objects, err := store.List(ctx, folder)
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(objects, func(o Object) bool { return !o.Modified.Before(settled) }) {
		return 0, store.Clean(ctx, folder, before)
	}
	needed := map[string]bool{}
	for _, o := range objects {
		if parseName(o.Name).kind == sealObject {
			needed[o.Name] = true
			s, err := readSeal(ctx, store, folder+"/"+o.Name)
			if err != nil {
				return 0, err // it is unknown which chunks are needed
			}
			for n, token := range s.Tokens {
				needed[chunkName(o.Name, s.Attempt, int64(n), token)] = true
			}
		}
	}
	var names []string
	for _, o := range objects {
		if !needed[o.Name] && o.Modified.Before(before) {
			names = append(names, o.Name)
		}
	}
	if err := store.Remove(ctx, folder, names...); err != nil {
		return 0, err
	}
	return len(names), store.Clean(ctx, folder, before)
}
