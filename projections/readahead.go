package projections

import (
	"context"

	"svc/events"
)

const (
	readers = 2        // of a log that is rebuilt
	stretch = 2 * page // events that one of them reads before it is the next one's turn
)

// A readAhead reads a log that is rebuilt before it is asked for it: its readers
// take turns with stretches of the log, so that one decodes what the other will be
// asked for next.
type readAhead struct {
	begin int64
	pages [readers]chan pageAhead
	stop  context.CancelFunc
}

// A pageAhead is a part of a log that ends at a position. It has nothing if the event
// there is refused.
type pageAhead struct {
	list    []events.Record
	at      int64
	refused error
	err     error
}

// readAhead begins to read a log behind begin, up to its head.
func (r *rebuild) readAhead(ctx context.Context, workspace events.ID, begin, head int64) *readAhead {
	ctx, stop := context.WithCancel(ctx)
	a := &readAhead{begin: begin, stop: stop}
	for i := range a.pages {
		a.pages[i] = make(chan pageAhead, 1)
		go func() {
			defer close(a.pages[i])
			for from := begin + int64(i)*stretch; from < head; from += readers * stretch {
				if !r.readStretch(ctx, workspace, from, min(from+stretch, head), a.pages[i]) {
					return
				}
			}
		}()
	}
	return a
}

// readStretch reads what lies behind at, up to end. It returns false if that cannot
// be done, or need not.
func (r *rebuild) readStretch(ctx context.Context, workspace events.ID, at, end int64, pages chan<- pageAhead) bool {
	for at < end {
		var p pageAhead
		p.list, p.at, p.err = readOn(ctx, r.db, r.view, workspace, at, int(end-at), func(_ int64, err error) { p.refused = err })
		if p.err == nil && p.at == at {
			return true // the log ends here
		}
		select {
		case <-ctx.Done():
			return false
		case pages <- p:
		}
		if p.err != nil {
			return false
		}
		at = p.at
	}
	return true
}

// next returns the page that follows at. ok is false if there is none.
func (a *readAhead) next(at int64) (p pageAhead, ok bool) {
	p, ok = <-a.pages[(at-a.begin)/stretch%readers]
	return p, ok
}

// close returns when nobody reads any more.
func (a *readAhead) close() {
	a.stop()
	for _, pages := range a.pages {
		for range pages { // until it is closed
		}
	}
}
