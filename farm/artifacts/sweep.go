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

// Sweep removes the chunks of uploads that ended before their files were complete, and returns the
// number of removed objects. It does not read the seals of folders in which nothing was put since last,
// the time of an earlier sweep without an error, or zero. It pauses between folders, to limit the load
// of a large store. A folder that fails does not stop the others.
func Sweep(ctx context.Context, store Store, now, last time.Time, pause time.Duration) (removed int, err error) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	before, settled := now.Add(-ChunkRetention), last.Add(-ChunkRetention)
	var failed error
	for folder, err := range store.Folders(ctx) {
		if err != nil {
			return removed, err
		}
		n, err := sweepFolder(ctx, store, folder, before, settled)
		removed += n
		if err != nil {
			failed = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return removed, ctx.Err()
		}
	}
	if failed != nil {
		return removed, fmt.Errorf("sweep artifacts: %w", failed)
	}
	return removed, ctx.Err()
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
