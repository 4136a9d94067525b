package fold

import (
	"context"
	"fmt"

	"svc/events"
	"svc/events/store"
)

const (
	readers = 2        // of logs that are rebuilt
	atATime = 2 * page // events that one of them reads before it is the next one's turn
)

// A readAhead reads what is rebuilt before it is asked for it: its readers take
// turns, so that one decodes what the other will be asked for next.
type readAhead struct {
	turn     int
	portions [readers]chan portion
	stop     context.CancelFunc
}

// A portion is what was read at a time.
type portion struct {
	list    []events.Record
	refused []refusal
	err     error
}

// A refusal is an event that cannot be read.
type refusal struct {
	workspace events.ID
	seq       int64
	err       error
}

// reads divides a chunk into what is read at a time: part of a long log, or several
// short ones.
func (c chunk) reads() (list []chunk) {
	var short chunk
	var n int64
	for _, s := range c {
		size := s.to - s.from
		if len(short) > 0 && n+size > atATime {
			list, short, n = append(list, short), nil, 0
		}
		for ; s.to-s.from > atATime; s.from += atATime {
			list = append(list, chunk{{s.workspace, s.from, s.from + atATime}})
		}
		short, n = append(short, s), n+s.to-s.from
	}
	return append(list, short)
}

// readAhead begins to read what a plan says.
func (r *rebuild) readAhead(ctx context.Context, plan []chunk) *readAhead {
	ctx, stop := context.WithCancel(ctx)
	a := &readAhead{stop: stop}
	for i := range a.portions {
		a.portions[i] = make(chan portion, 1)
		go func() {
			defer close(a.portions[i])
			for ; i < len(plan); i += readers {
				p := r.readChunk(ctx, r.db, plan[i])
				select {
				case <-ctx.Done():
					return
				case a.portions[i%readers] <- p:
				}
			}
		}()
	}
	return a
}

// next returns the next portion of the plan. ok is false if there is none.
func (a *readAhead) next() (p portion, ok bool) {
	p, ok = <-a.portions[a.turn%readers]
	a.turn++
	return p, ok
}

// close returns when nobody reads any more.
func (a *readAhead) close() {
	a.stop()
	for _, portions := range a.portions {
		for range portions { // until it is closed
		}
	}
}

// readChunk reads stretches of logs, all of each. What is wrong with one of several
// logs is found by reading each alone.
func (r *rebuild) readChunk(ctx context.Context, db store.Querier, c chunk) (p portion) {
	if len(c) > 1 {
		if list, err := r.readTogether(ctx, db, c); err == nil || ctx.Err() != nil {
			return portion{list: list, err: err}
		}
	}
	for _, s := range c {
		for s.from < s.to {
			list, at, err := readOn(ctx, db, r.view, s.workspace, s.from, int(s.to-s.from), func(seq int64, err error) {
				p.refused = append(p.refused, refusal{s.workspace, seq, err})
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
		if rec.Seq <= ends[rec.Workspace] { // others have appended since the plan was made
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

// missing says that a log ends where it should go on.
func (s stretch) missing() error {
	return fmt.Errorf("event %d is missing: the log ends before its head, which is at least %d", s.from+1, s.to)
}
