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

// A readResult is the result of reading one chunk of the plan.
type readResult struct {
	list    []events.Record
	damaged []damagedEvent
	err     error
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
			for ; i < len(plan); i += readers {
				p := r.readChunk(ctx, r.db, plan[i])
				select {
				case <-ctx.Done():
					return
				case a.results[i%readers] <- p:
				}
			}
		}()
	}
	return a
}

// next returns the next portion in the order of the plan; ok is false at its end.
func (a *readAhead) next() (p readResult, ok bool) {
	p, ok = <-a.results[a.turn%readers]
	a.turn++
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

// readChunk reads all events of a chunk. If reading several logs together fails, it reads each
// alone to find the damaged events.
func (r *rebuild) readChunk(ctx context.Context, db store.Querier, c chunk) (p readResult) {
	if len(c) > 1 {
		if list, err := r.readTogether(ctx, db, c); err == nil || ctx.Err() != nil {
			return readResult{list: list, err: err}
		}
	}
	for _, s := range c {
		for s.from < s.to {
			list, at, err := readOn(ctx, db, r.view, s.workspace, s.from, int(s.to-s.from), func(seq int64, err error) {
				p.damaged = append(p.damaged, damagedEvent{s.workspace, seq, err})
			})
			if err == nil && at == s.from {
				err = s.missing()
			}
			if err != nil {
				p.err = fmt.Errorf("read log %s: %w", s.workspace, err)
				return p
			}
			p.list, s.from = append(p.list, list...), at
		}
	}
	return p
}

func (r *rebuild) readTogether(ctx context.Context, db store.Querier, c chunk) (list []events.Record, err error) {
	var positions []store.Position
	var limit int64
	ends := map[events.ID]int64{}
	for _, s := range c {
		positions, limit, ends[s.workspace] = append(positions,
			store.Position{Workspace: s.workspace, Seq: s.from}), max(limit, s.to-s.from), s.to
	}
	records, err := r.view.After(ctx, db, positions, int(limit))
	if err != nil {
		return nil, err
	}
	at := map[events.ID]int64{}
	for _, rec := range records {
		if rec.Seq <= ends[rec.Workspace] { // skips what was appended after the plan was made
			list, at[rec.Workspace] = append(list, rec), rec.Seq
		}
	}
	for _, s := range c {
		if s.from = max(s.from, at[s.workspace]); s.from < s.to {
			return nil, s.missing()
		}
	}
	return list, nil
}

// missing returns the error for a log that has fewer events than its head says.
func (s stretch) missing() error {
	return fmt.Errorf("event %d is missing: the log ends before its head, which is at least %d", s.from+1, s.to)
}
