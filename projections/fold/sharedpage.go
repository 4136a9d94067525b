package fold

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
)

// A sharedPage is the next events of several logs for the views that are level in them.
type sharedPage struct {
	views  []View
	limit  int                            // events of each log
	from   []store.Position               // position after which the page begins in each log
	at     map[events.ID]map[string]int64 // the checkpoints of the views that are level
	behind []follow.Checkpoint            // views that are not level

	records []events.Record
	ends    []store.Position
	more    []events.ID // logs that may have events after the page
}

// newSharedPage returns a page that begins at the rearmost of the level views in each log. Views
// more than a page behind the foremost one go to behind, so the page reaches at least to the
// foremost view.
func newSharedPage(views []View, workspaces []events.ID, held []follow.Checkpoint) *sharedPage {
	p := &sharedPage{views: views, limit: max(page/len(workspaces), 1), at: map[events.ID]map[string]int64{}}
	highest := map[events.ID]int64{}
	for _, c := range held {
		highest[c.Workspace] = max(highest[c.Workspace], c.Seq)
		if p.at[c.Workspace] == nil {
			p.at[c.Workspace] = map[string]int64{}
		}
		p.at[c.Workspace][c.Name] = c.Seq
	}
	for _, workspace := range workspaces {
		at, from := p.at[workspace], highest[workspace]
		for _, v := range views {
			seq, ok := at[v.Name()]
			if ok && seq >= highest[workspace]-int64(p.limit) {
				from = min(from, seq)
				continue
			}
			delete(at, v.Name())
			p.behind = append(p.behind, follow.Checkpoint{Workspace: workspace, Name: v.Name(), Seq: seq})
		}
		if len(at) > 0 {
			p.from = append(p.from, store.Position{Workspace: workspace, Seq: from})
		}
	}
	return p
}

// newClaimedPage returns a page for logs in which all views are at the same position.
func newClaimedPage(views []View, from []store.Position) *sharedPage {
	p := &sharedPage{views: views, limit: max(page/len(from), 1), from: from, at: map[events.ID]map[string]int64{}}
	for _, f := range from {
		p.at[f.Workspace] = map[string]int64{}
		for _, v := range views {
			p.at[f.Workspace][v.Name()] = f.Seq
		}
	}
	return p
}

// read reads the page, unless its records were read ahead.
func (p *sharedPage) read(ctx context.Context, db querier) (err error) {
	if len(p.from) == 0 {
		return nil
	}
	if len(p.records) == 0 {
		if p.records, err = readRecords(ctx, db, p.views, p.from, p.limit); err != nil {
			return err
		}
	}
	p.ends, p.more = follow.Ends(p.records), store.LogsWithMore(p.records, len(p.from), p.limit)
	return follow.CheckComplete(ctx, db, p.from, p.ends)
}

// readRecords reads the next events of logs. For one view only the kinds it handles are decoded; for
// several, any event that cannot be decoded is an error.
func readRecords(ctx context.Context, db store.Querier, views []View, from []store.Position, limit int) ([]events.Record, error) {
	if len(views) == 1 {
		return views[0].Read(ctx, db, from, limit)
	}
	return store.Page{Logs: from, Limit: limit}.Read(ctx, db)
}

// nextPositions returns the start positions of the page after this one.
func (p *sharedPage) nextPositions() []store.Position {
	return slices.DeleteFunc(slices.Clone(p.ends), func(end store.Position) bool { return !slices.Contains(p.more, end.Workspace) })
}

// apply folds the page into each view and moves their checkpoints, which are locked.
func (p *sharedPage) apply(ctx context.Context, tx pgx.Tx) error {
	b := p.newBatch()
	return runSteps(ctx, tx, b, p.queueLoads(b), func(b *pgx.Batch) { follow.QueueMoves(b, p.checkpointMoves()) })
}

// claimAndApply is apply for checkpoints that are not locked: it moves them first, by compare-and-swap.
func (p *sharedPage) claimAndApply(ctx context.Context, tx pgx.Tx) error {
	b := p.newBatch()
	follow.QueueClaim(b, names(p.views), slices.DeleteFunc(slices.Clone(p.from), p.isWithoutEvents), p.ends)
	follow.QueueRequireEvents(b, follow.LastRecords(p.records))
	return runSteps(ctx, tx, b, p.queueLoads(b), func(*pgx.Batch) {})
}

// withoutEvents returns where the page begins in the logs that it has no events of.
func (p *sharedPage) withoutEvents() (list []store.Position) {
	for _, f := range p.from {
		if p.isWithoutEvents(f) {
			list = append(list, f)
		}
	}
	return list
}

func (p *sharedPage) isWithoutEvents(from store.Position) bool {
	return !slices.ContainsFunc(p.ends, func(end store.Position) bool { return end.Workspace == from.Workspace })
}

// newBatch returns a batch that first limits how long the transaction waits for locks.
func (p *sharedPage) newBatch() *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(fmt.Sprintf(`set local lock_timeout = %d`, passLockTimeout.Milliseconds()))
	return b
}

// queueLoads queues reading the rows that the page touches.
func (p *sharedPage) queueLoads(b *pgx.Batch) (steps []Step) {
	for _, v := range p.views {
		if records := p.recordsFor(v.Name()); len(records) > 0 {
			steps = append(steps, v.Load(b, v.Name(), records))
		}
	}
	return steps
}

// recordsFor returns the records that a view has not processed.
func (p *sharedPage) recordsFor(view string) []events.Record {
	all := true
	for _, from := range p.from {
		at, ok := p.at[from.Workspace][view]
		all = all && ok && at == from.Seq
	}
	if all {
		return p.records
	}
	return slices.DeleteFunc(slices.Clone(p.records), func(r events.Record) bool {
		at, ok := p.at[r.Workspace][view]
		return !ok || r.Seq <= at
	})
}

// checkpointMoves returns the checkpoints that the page changes.
func (p *sharedPage) checkpointMoves() (list []follow.Checkpoint) {
	for _, end := range p.ends {
		for _, v := range p.views {
			if at, ok := p.at[end.Workspace][v.Name()]; ok && at < end.Seq {
				list = append(list, follow.Checkpoint{Workspace: end.Workspace, Name: v.Name(), Seq: end.Seq})
			}
		}
	}
	return list
}

// A nextPage is read ahead. The log is immutable, so reading needs no transaction.
type nextPage struct {
	views   []string
	from    []store.Position
	limit   int
	records []events.Record // none if reading failed, or if the log ended there at that time
	cancel  func()          // ends reading; nil if nothing was read ahead
	done    chan struct{}   // closed when reading has ended; nil if nothing was read ahead
}

// startNextPage begins to read the events after a page, which takes at most timeout. Reading goes on
// when ctx ends, because that is the context of the page before.
func startNextPage(ctx context.Context, db *pgxpool.Pool, views []View, from []store.Position, timeout time.Duration) *nextPage {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	n := &nextPage{views: names(views), from: from, limit: max(page/len(from), 1), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(n.done)
		defer cancel()
		if records, err := readRecords(ctx, db, views, from, n.limit); err == nil { // the reader of the page meets the error itself
			n.records = records
		}
	}()
	return n
}

// wait returns when reading ahead has ended.
func (n *nextPage) wait() {
	if n.done != nil {
		<-n.done
	}
}

// stop ends reading ahead.
func (n *nextPage) stop() {
	if n.cancel != nil {
		n.cancel()
	}
	n.wait()
}

// match returns the records, when reading has ended, if they are those of the requested page, otherwise none.
func (n *nextPage) match(views []View, from []store.Position, limit int) []events.Record {
	n.wait()
	if n.limit != limit || !slices.Equal(n.from, from) || !slices.Equal(n.views, names(views)) {
		return nil
	}
	return n.records
}
