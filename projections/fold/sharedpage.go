package fold

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
)

// A sharedPage is what logs have next for views that are level.
type sharedPage struct {
	views  []View
	limit  int                            // of the events of each log
	from   []store.Position               // behind which it begins, in each log
	at     map[events.ID]map[string]int64 // the checkpoints of the views that are level
	behind []follow.Checkpoint            // views that are not

	records []events.Record
	ends    []store.Position
	more    []events.ID // logs that may go on behind it
}

// newSharedPage begins behind the last of the level views in each log, so that its
// end is not before the first of them.
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
			if ok && highest[workspace]-seq <= int64(p.limit) {
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

// newLevelPage begins where all views are.
func newLevelPage(views []View, from []store.Position) *sharedPage {
	p := &sharedPage{views: views, limit: max(page/len(from), 1), from: from, at: map[events.ID]map[string]int64{}}
	for _, f := range from {
		p.at[f.Workspace] = map[string]int64{}
		for _, v := range views {
			p.at[f.Workspace][v.Name()] = f.Seq
		}
	}
	return p
}

// read reads the page, unless that was done ahead.
func (p *sharedPage) read(ctx context.Context, db interface {
	store.Querier
	batcher
}, next *nextPage) (err error) {
	if len(p.from) == 0 {
		return nil
	}
	if p.records = next.of(p.views, p.from, p.limit); p.records == nil {
		if p.records, err = readFor(ctx, db, p.views, p.from, p.limit); err != nil {
			return fmt.Errorf("read logs: %w", err)
		}
	}
	p.ends, p.more = follow.Ends(p.records), follow.LogsWithMore(p.records, p.limit)
	return follow.CheckComplete(ctx, db, p.from, p.ends)
}

// readFor reads on in logs for views. One alone needs not all of the events decoded;
// for several an event that cannot be decoded is an error, whoever takes it in.
func readFor(ctx context.Context, db store.Querier, views []View, from []store.Position, limit int) ([]events.Record, error) {
	if len(views) == 1 {
		return views[0].After(ctx, db, from, limit)
	}
	return store.AfterEach(ctx, db, from, limit)
}

// next is behind which the next page of the logs of which there is more begins.
func (p *sharedPage) next() []store.Position {
	return slices.DeleteFunc(slices.Clone(p.ends), func(end store.Position) bool { return !slices.Contains(p.more, end.Workspace) })
}

// takeIn folds the page into each view, and moves their checkpoints to its end.
func (p *sharedPage) takeIn(ctx context.Context, tx pgx.Tx) error {
	b := p.begin()
	return carryOut(ctx, tx, b, p.load(b), func(b *pgx.Batch) { follow.QueueMoveAll(b, p.moves()) })
}

// claim is takeIn of a page whose checkpoints are not held: it moves them first.
func (p *sharedPage) claim(ctx context.Context, tx pgx.Tx) error {
	var from []store.Position // of the logs that have grown
	for _, f := range p.from {
		if slices.ContainsFunc(p.ends, func(end store.Position) bool { return end.Workspace == f.Workspace }) {
			from = append(from, f)
		}
	}
	b := p.begin()
	follow.QueueClaim(b, names(p.views), from, p.ends)
	return carryOut(ctx, tx, b, p.load(b), func(*pgx.Batch) {})
}

// begin has nobody else's lock keep the page waiting for long.
func (p *sharedPage) begin() *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(fmt.Sprintf(`set local lock_timeout = %d`, sharedLocks.Milliseconds()))
	return b
}

// load queues reading the rows that the page touches.
func (p *sharedPage) load(b *pgx.Batch) (steps []Step) {
	for _, v := range p.views {
		if records := p.of(v.Name()); len(records) > 0 {
			steps = append(steps, v.Load(b, v.Name(), records))
		}
	}
	return steps
}

// of returns the records that a view has not taken in.
func (p *sharedPage) of(view string) []events.Record {
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

// moves returns where the page takes the views.
func (p *sharedPage) moves() (list []follow.Checkpoint) {
	for _, end := range p.ends {
		for _, v := range p.views {
			if at, ok := p.at[end.Workspace][v.Name()]; ok && at < end.Seq {
				list = append(list, follow.Checkpoint{Workspace: end.Workspace, Name: v.Name(), Seq: end.Seq})
			}
		}
	}
	return list
}

// A nextPage is read before it is asked for. The log does not change, so
// it needs no transaction.
type nextPage struct {
	views   []string
	from    []store.Position
	limit   int
	records []events.Record // nil if they could not be read
	done    chan struct{}   // closed when they were; nil if there is no such page
}

// readNext begins to read what follows the ends of a page. It ends with ctx.
func readNext(ctx context.Context, db *pgxpool.Pool, views []View, from []store.Position) *nextPage {
	n := &nextPage{views: names(views), from: from, limit: max(page/len(from), 1), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		if records, err := readFor(ctx, db, views, from, n.limit); err == nil { // who asks for it finds out what is wrong
			n.records = records
		}
	}()
	return n
}

// wait returns when nothing is read ahead any more.
func (n *nextPage) wait() {
	if n.done != nil {
		<-n.done
	}
}

// of returns what was read, nil if it is not what is asked for.
func (n *nextPage) of(views []View, from []store.Position, limit int) []events.Record {
	if n.limit != limit || !slices.Equal(n.from, from) || !slices.Equal(n.views, names(views)) {
		return nil
	}
	return n.records
}
