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
// number of removed objects. A folder that fails does not stop the others.
func Sweep(ctx context.Context, store Store, now time.Time) (removed int, err error) {
	before := now.Add(-ChunkRetention)
	var failed error
	for folder, err := range store.Folders(ctx) {
		if err != nil {
			return removed, err
		}
		n, err := sweepFolder(ctx, store, folder, before)
		removed += n
		if err != nil {
			failed = err
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

func sweepFolder(ctx context.Context, store Store, folder string, before time.Time) (int, error) {
	objects, err := store.List(ctx, folder)
	if err != nil {
		return 0, err
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
