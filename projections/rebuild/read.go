package rebuild

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

const (
	readers   = 2    // pieces that are read ahead
	pieceSize = 2000 // events of a piece
)

// iter iterates over pages of events.
type iter func(yield func([]events.Record, error) bool)

// A reader reads the logs.
type reader struct {
	db   *pgxpool.Pool
	skip []string // kinds to leave out
}

// A readAhead reads the pieces of a plan in the background, so that the next ones are decoded while one is folded.
type readAhead struct {
	reader
	pieces chan chan piece // in the order of the plan
	stop   context.CancelFunc
}

// A piece is what was read of a chunk.
type piece struct {
	of      chunk // what was read
	records []events.Record
	rest    chunk // what did not fit into a page
	err     error
}

// split splits a chunk into pieces of at most pieceSize events: parts of a long log, or several short
// logs together.
func (c chunk) split() (list []chunk) {
	var short chunk
	var n int64
	for _, s := range c {
		size := s.to - s.from
		if len(short) > 0 && n+size > pieceSize {
			list, short, n = append(list, short), nil, 0
		}
		for ; s.to-s.from > pieceSize; s.from += pieceSize {
			list = append(list, chunk{{s.workspace, s.from, s.from + pieceSize, true}})
		}
		short, n = append(short, s), n+s.to-s.from
	}
	return append(list, short)
}

// startReadAhead starts to read. The caller must call close.
func (r reader) startReadAhead(ctx context.Context, plan []chunk) *readAhead {
	ctx, stop := context.WithCancel(ctx)
	a := &readAhead{reader: r, pieces: make(chan chan piece, readers), stop: stop}
	go func() {
		defer close(a.pieces)
		var reading sync.WaitGroup
		defer reading.Wait()
		for _, c := range plan {
			one := make(chan piece, 1)
			select {
			case <-ctx.Done():
				return
			case a.pieces <- one:
			}
			reading.Go(func() { one <- r.read(ctx, r.db, c) })
		}
	}()
	return a
}

// next passes the events of the next piece to yield, and reports whether yield wants more.
func (a *readAhead) next(ctx context.Context, yield func([]events.Record, error) bool) bool {
	one, ok := <-a.pieces
	if !ok {
		return yield(nil, ctx.Err())
	}
	for p := <-one; ; p = a.read(ctx, a.db, p.rest) {
		if !yield(p.records, p.err) {
			return false
		}
		if len(p.rest) == 0 {
			return true
		}
	}
}

// close stops reading and returns when it has ended.
func (a *readAhead) close() {
	a.stop()
	for range a.pieces { // until it is closed
	}
}

// read reads the events of a chunk without the kinds to skip, one log after the other, as many as fit into a page.
func (r reader) read(ctx context.Context, db store.Querier, c chunk) (p piece) {
	ranges := store.Ranges{Skip: r.skip, Decode: store.Known}
	for _, s := range c {
		ranges.Logs = append(ranges.Logs, store.Range{Workspace: s.workspace, From: s.from, To: s.to})
	}
	records, ends, err := ranges.Read(ctx, db)
	if err != nil {
		return piece{err: nameMissing(ctx, db, c, err)}
	}
	for i, s := range c {
		if s.from = ends[i].Seq; s.from < s.to { // the page is full: what it has of the next logs is read again
			next := slices.IndexFunc(records, func(e events.Record) bool { return e.Workspace == s.workspace })
			for next < len(records) && records[next].Workspace == s.workspace {
				next++
			}
			of := append(slices.Clone(c[:i]), stretch{workspace: s.workspace, from: c[i].from, to: s.from})
			return piece{of: of, records: records[:next], rest: append(chunk{s}, c[i+1:]...)}
		}
	}
	return piece{of: c, records: records}
}

// nameMissing adds to an error of reading which event is missing, if one is.
func nameMissing(ctx context.Context, db store.Querier, c chunk, err error) error {
	for _, s := range c {
		rows, _ := db.Query(ctx, `
			select n from generate_series($2::bigint + 1, $3::bigint) n
			where not exists (select from events where workspace_id = $1 and seq = n) limit 1`, s.workspace, s.from, s.to)
		for rows.Next() {
			var seq int64
			if rows.Scan(&seq) == nil {
				err = fmt.Errorf("log %s: event %d is missing: %w", s.workspace, seq, err)
			}
		}
	}
	return err
}
