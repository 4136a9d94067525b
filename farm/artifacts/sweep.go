package artifacts

import (
	"context"
	"fmt"
	"time"
)

// Leftovers is how long chunks lie that no file is made of. No upload goes on for longer:
// it begins when the job has ended, and is abandoned after [Patience].
const Leftovers = Patience + 10*time.Minute

// Patience is how long after the end of a job its files may come.
const Patience = time.Hour

// Sweep removes what uploads have left that ended before their files were whole, and returns how
// many objects that were. A folder that cannot be swept does not keep others from it.
func Sweep(ctx context.Context, store Store, now time.Time) (removed int, err error) {
	before := now.Add(-Leftovers)
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
				return 0, err // nobody knows what it is made of
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
