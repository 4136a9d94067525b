package fold

import (
	"context"
	"fmt"

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

// next returns the next portion in the order of the plan; ok is false at its end.
func (a *readAhead) next() (p readResult, ok bool) {
	if p, ok = <-a.results[a.turn%readers]; p.last {
		a.turn++
	}
	return p, ok
}

// close stops the readers and returns when they have ended.
func (a *readAhead) close() {
	a.stop()
	for _, portions := range a.results {
		for range portions { // drain until the reader closes it
		}
	}
}

// readChunk reads all events of a chunk, one log after the other, and passes them to emit until that
// returns false. It reads logs together while they fit into a page. It reads a log that does not fit
// alone, page by page. If reading logs together fails, it reads each alone to find the damaged events.
func (r *rebuild) readChunk(ctx context.Context, db store.Querier, c chunk, emit func(readResult) bool) bool {
	for together := true; len(c) > 0; {
		if together = together && len(c) > 1; together {
			list, whole, err := r.readTogether(ctx, db, c)
			switch {
			case ctx.Err() != nil:
				return emit(readResult{err: ctx.Err(), last: true})
			case err != nil:
				together = false
			case whole > 0:
				if c = c[whole:]; !emit(readResult{list: list}) {
					return false
				}
				continue
			}
		}
		if err := r.readAlone(ctx, db, c[0], emit); err != nil {
			return emit(readResult{err: fmt.Errorf("read log %s: %w", c[0].workspace, err), last: true})
		}
		c = c[1:]
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

// readTogether reads a page of a chunk. It returns the events of the first logs whose stretches are
// completely in the page, and the number of these logs.
func (r *rebuild) readTogether(ctx context.Context, db store.Querier, c chunk) (list []events.Record, whole int, err error) {
	var positions []store.Position
	var limit int64
	for _, s := range c {
		positions, limit = append(positions, store.Position{Workspace: s.workspace, Seq: s.from}), max(limit, s.to-s.from)
	}
	records, err := r.view.Read(ctx, db, positions, int(limit))
	if err != nil {
		return nil, 0, err
	}
	at, complete := 0, 0
	for _, s := range c {
		for ; at < len(records) && records[at].Workspace == s.workspace; at++ {
			if records[at].Seq <= s.to { // skips what was appended after the plan was made
				list, s.from = append(list, records[at]), records[at].Seq
			}
		}
		if s.from < s.to {
			break
		}
		complete, whole = len(list), whole+1
	}
	return list[:complete], whole, nil
}

// missing returns the error for a log that has fewer events than its head says.
func (s stretch) missing() error {
	return fmt.Errorf("event %d is missing: the log ends before its head, which is at least %d", s.from+1, s.to)
}
