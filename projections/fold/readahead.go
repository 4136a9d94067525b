package fold

import (
	"context"
	"fmt"
	"slices"

	"svc/events"
	"svc/events/store"
)

const (
	readers   = 2        // number of concurrent readers of a rebuild
	readBatch = 2 * page // events that a reader reads before the next reader's turn
)

// A readAhead reads the chunks of a plan in the background. Its readers take turns, so that one
// decodes the next chunk while the other's is being folded.
type readAhead struct {
	turn    int
	results [readers]chan readResult
	stop    context.CancelFunc
}

// A readResult is the result of reading one chunk of the plan, or a part of a chunk.
type readResult struct {
	list    []events.Record
	damaged []damagedEvent
	err     error
	last    bool // it is the last of its chunk
}

// A damagedEvent is an event that cannot be decoded.
type damagedEvent struct {
	workspace events.ID
	seq       int64
	err       error
}

// split splits a chunk into pieces of at most readBatch events: parts of a long log, or several short
// logs together.
func (c chunk) split() (list []chunk) {
	var short chunk
	var n int64
	for _, s := range c {
		size := s.to - s.from
		if len(short) > 0 && n+size > readBatch {
			list, short, n = append(list, short), nil, 0
		}
		for ; s.to-s.from > readBatch; s.from += readBatch {
			list = append(list, chunk{{s.workspace, s.from, s.from + readBatch}})
		}
		short, n = append(short, s), n+s.to-s.from
	}
	return append(list, short)
}

// startReadAhead starts the readers. The caller must call close.
func (r *rebuild) startReadAhead(ctx context.Context, plan []chunk) *readAhead {
	ctx, stop := context.WithCancel(ctx)
	a := &readAhead{stop: stop}
	for i := range a.results {
		a.results[i] = make(chan readResult, 1)
		go func() {
			defer close(a.results[i])
			emit := func(p readResult) bool {
				select {
				case <-ctx.Done():
					return false
				case a.results[i] <- p:
					return true
				}
			}
			for n := i; n < len(plan); n += readers {
				if !r.readChunk(ctx, r.db, plan[n], emit) {
					return
				}
			}
		}()
	}
	return a
}

// next returns the next result in the order of the plan; ok is false at its end.
func (a *readAhead) next() (p readResult, ok bool) {
	if p, ok = <-a.results[a.turn%readers]; p.last {
		a.turn++
	}
	return p, ok
}

// close stops the readers and returns when they have ended.
func (a *readAhead) close() {
	a.stop()
	for _, results := range a.results {
		for range results { // drain until the reader closes it
		}
	}
}

// readChunk reads all events of a chunk, one log after the other, and passes them to emit until that
// returns false. If reading logs together fails, it reads each alone to find the damaged events.
func (r *rebuild) readChunk(ctx context.Context, db store.Querier, c chunk, emit func(readResult) bool) bool {
	for c = slices.Clone(c); len(c) > 0; {
		list, rest, err := r.readTogether(ctx, db, c)
		if err != nil {
			break
		}
		if c = rest; len(list) > 0 && !emit(readResult{list: list}) {
			return false
		}
	}
	for _, s := range c {
		if err := r.readAlone(ctx, db, s, emit); err != nil {
			return emit(readResult{err: fmt.Errorf("read log %s: %w", s.workspace, err), last: true})
		}
	}
	return emit(readResult{last: true})
}

// readAlone reads the events of one log for readChunk.
func (r *rebuild) readAlone(ctx context.Context, db store.Querier, s stretch, emit func(readResult) bool) error {
	for s.from < s.to {
		var p readResult
		list, at, err := readOn(ctx, db, r.view, s.workspace, s.from, int(s.to-s.from), func(seq int64, err error) {
			p.damaged = append(p.damaged, damagedEvent{s.workspace, seq, err})
		})
		switch {
		case err != nil:
			return err
		case at == s.from:
			return s.missing()
		}
		if p.list, s.from = list, at; !emit(p) {
			return ctx.Err()
		}
	}
	return nil
}

// readTogether reads the events of a chunk that the view folds, as many as fit into a page, and
// returns what is left of the chunk.
func (r *rebuild) readTogether(ctx context.Context, db store.Querier, c chunk) (list []events.Record, rest chunk, err error) {
	ranges := store.Ranges{Skip: r.skip}
	if r.view.FoldsDamaged() {
		ranges.Decode = store.Known
	}
	for _, s := range c {
		ranges.Logs = append(ranges.Logs, store.Range{Workspace: s.workspace, From: s.from, To: s.to})
	}
	list, ends, err := ranges.Read(ctx, db)
	if err != nil {
		return nil, nil, err
	}
	for i, s := range c {
		if s.from = ends[i].Seq; s.from < s.to { // the page is full: what it has of the next logs is read again
			next := slices.IndexFunc(list, func(e events.Record) bool { return e.Workspace == s.workspace })
			for next < len(list) && list[next].Workspace == s.workspace {
				next++
			}
			return list[:next], append(chunk{s}, c[i+1:]...), nil
		}
	}
	return list, nil, nil
}

// missing returns the error for a log that has fewer events than its head says.
func (s stretch) missing() error {
	return fmt.Errorf("event %d is missing: the log ends before its head, which is at least %d", s.from+1, s.to)
}
