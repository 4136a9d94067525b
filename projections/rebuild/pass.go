package rebuild

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/projections/fold"
)

// limits bound what one transaction folds: the number of logs and the number of events. The rows
// that these events touch stay in memory until they are written.
type limits struct {
	logs   int
	events int64
}

// foldLimits keep the rows of a chunk to some megabytes: that of a run takes a few kilobytes.
var foldLimits = limits{logs: 1000, events: 20_000}

// maxRest is the number of events at the end of a log that are no transaction of their own.
const maxRest = 1000

// A stretch is the part of a log after event from, up to and including event to.
type stretch struct {
	workspace events.ID
	from, to  int64
	goesOn    bool // the next chunk continues the log
}

// A chunk is what one transaction folds: several whole logs, or a stretch of one log.
type chunk []stretch

func (c chunk) String() string {
	if len(c) == 1 {
		return fmt.Sprintf("log %s", c[0].workspace)
	}
	return fmt.Sprintf("%d logs from %s to %s", len(c), c[0].workspace, c[len(c)-1].workspace)
}

// groupIntoChunks groups stretches into chunks within limits. A stretch that exceeds them gets a chunk of
// its own.
func groupIntoChunks(list []stretch, l limits) (chunks []chunk) {
	var c chunk
	var n int64
	for _, s := range list {
		size := s.to - s.from
		if len(c) > 0 && (len(c) == l.logs || n+size > l.events) {
			chunks, c, n = append(chunks, c), nil, 0
		}
		c, n = append(c, s), n+size
	}
	if len(c) > 0 {
		chunks = append(chunks, c)
	}
	return chunks
}

// A txBeginner is a pool, a connection or a transaction; in the latter Begin starts a nested transaction.
type txBeginner interface {
	store.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// A pass folds logs into the next tables of views that have the same positions. It reads each page once.
type pass struct {
	reader
	target txBeginner // database or connection that the tables are written through
	views  []*rebuild
	limits limits
	folds  map[string][]*rebuild // views that fold a kind
}

func newPass(db *pgxpool.Pool, target txBeginner, views []*rebuild, l limits) *pass {
	if l == (limits{}) {
		l = foldLimits
	}
	p := &pass{reader: reader{db: db}, target: target, views: views, limits: l, folds: map[string][]*rebuild{}}
	for _, kind := range events.Kinds() {
		for _, r := range views {
			if r.view.Folds(kind) {
				p.folds[kind] = append(p.folds[kind], r)
			}
		}
		if p.folds[kind] == nil {
			p.skip = append(p.skip, kind)
		}
	}
	return p
}

// run folds every log up to its present end. Logs that fit into a transaction are copied into tables
// without indexes. Longer ones then need the lookup indexes, to find the rows that exist.
func (p *pass) run(ctx context.Context) error {
	list, err := p.views[0].grownLogs(ctx, p.db)
	if err != nil {
		return err
	}
	for _, r := range p.views {
		for _, s := range list {
			r.all.total += s.to - s.from
		}
		r.all.total += r.Resumed
		r.all.done += r.Resumed
	}
	whole, long := p.plan(list)
	if err := p.foldChunks(ctx, whole); err != nil || len(long) == 0 {
		return err
	}
	for _, r := range p.views {
		if _, err := r.createIndexes(ctx, r.view.LookupIndexes()); err != nil {
			return err
		}
	}
	return p.foldChunks(ctx, long)
}

// plan returns the chunks of logs that fit into one, and those of longer logs. It leaves the short rests of logs
// whose beginning is folded to catchUp.
func (p *pass) plan(list []stretch) (whole, long []chunk) {
	rest := min(maxRest, p.limits.events)
	var short []stretch
	for _, s := range list {
		switch size := s.to - s.from; {
		case s.from == 0 && size <= p.limits.events:
			short = append(short, s)
		case s.from == 0 || size > rest:
			for at := s.from; at < s.to; {
				end := at + p.limits.events
				if end+rest >= s.to {
					end = s.to
				}
				long = append(long, chunk{{s.workspace, at, end, end < s.to}})
				at = end
			}
		}
	}
	return groupIntoChunks(short, p.limits), long
}

func (p *pass) foldChunks(ctx context.Context, chunks []chunk) error {
	reads, plan := make([]int, len(chunks)), []chunk{}
	for i, c := range chunks {
		list := c.split()
		reads[i], plan = len(list), append(plan, list...)
	}
	ahead := p.startReadAhead(ctx, plan)
	defer ahead.close()
	for i, c := range chunks {
		var views []*rebuild
		for _, r := range p.views {
			if !r.behind[c[0].workspace] {
				views = append(views, r)
			}
		}
		left, err := p.foldChunk(ctx, views, c, func(yield func([]events.Record, error) bool) {
			for range reads[i] {
				if !ahead.next(ctx, yield) {
					return
				}
			}
		})
		if err != nil {
			return fmt.Errorf("fold %s: %w", c, err)
		}
		for _, r := range views {
			if left[r] {
				for _, s := range c {
					r.behind[s.workspace] = true
				}
				continue
			}
			r.advance(c)
		}
	}
	return nil
}

// foldChunk folds the pages of a chunk into the tables of views in one transaction, and moves their positions. It
// leaves out the views of which PostgreSQL refused a row: their catchUp finds the event and parks it.
func (p *pass) foldChunk(ctx context.Context, views []*rebuild, c chunk, pages iter) (left map[*rebuild]bool, err error) {
	loads := map[*rebuild]*load{}
	for _, r := range views {
		loads[r] = r.beginLoad(c)
	}
	left = map[*rebuild]bool{}
	err = pgx.BeginFunc(ctx, p.target, func(tx pgx.Tx) error {
		for records, err := range pages {
			if err != nil {
				return err
			}
			for _, e := range records {
				for _, r := range p.folds[e.Event.Kind()] {
					if l := loads[r]; l != nil {
						l.page = append(l.page, e)
					}
				}
			}
			for _, r := range views {
				if err := loads[r].fold(ctx, tx); err != nil {
					return err
				}
			}
		}
		b := &pgx.Batch{}
		var moved []*rebuild
		for _, r := range views {
			switch err := loads[r].write(ctx, tx); {
			case err == nil:
				moved = append(moved, r)
			case r.mayPark(err):
				left[r] = true
			default:
				return err
			}
		}
		queueMove(b, moved, c)
		return tx.SendBatch(ctx, b).Close()
	})
	return left, err
}

// A load is what one transaction folds into a view.
type load struct {
	*rebuild
	loader fold.Loader
	goesOn bool            // the rows are written by the transaction that ends the log
	page   []events.Record // next records
	parked *pgx.Batch
}

// beginLoad begins to fold a chunk. Keys move between logs, so the rows of a view that is [fold.ByAppend] are consistent
// only if each log is written as a whole.
func (r *rebuild) beginLoad(c chunk) *load {
	whole := r.view.Mode() == fold.ByAppend
	l := &load{rebuild: r, loader: r.loader, goesOn: whole && c[0].goesOn, parked: &pgx.Batch{}}
	if l.loader == nil {
		l.loader = r.view.Loader(r.nextTable, c[0].from > 0)
	}
	r.loader = nil
	if l.goesOn {
		r.loader = l.loader
	}
	return l
}

func (l *load) fold(ctx context.Context, tx pgx.Tx) error {
	park := l.parkFunc(l.parked)
	records, err := l.foldable(l.page, park)
	if err == nil && len(records) > 0 {
		err = l.loader.Fold(ctx, tx, records, park)
	}
	l.page = l.page[:0]
	return err
}

// write writes the rows and parked events, or nothing if it fails.
func (l *load) write(ctx context.Context, tx pgx.Tx) error {
	if l.goesOn {
		return nil
	}
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		if err := l.loader.Write(ctx, tx); err != nil {
			return err
		}
		return tx.SendBatch(ctx, l.parked).Close()
	})
}

// advance records that stretches were folded and committed, and reports progress.
func (r *rebuild) advance(list []stretch) {
	var n int64
	for _, s := range list {
		n, r.reached = n+s.to-s.from, s.to
	}
	r.Events += n
	r.all.advance(n)
}

// queueMove queues moving the positions of views in logs to the ends of stretches, as a compare-and-swap. It
// fails with errOvertaken if a position is not where its stretch begins, which means that another
// rebuild writes to the table.
func queueMove(b *pgx.Batch, views []*rebuild, list []stretch) {
	var names []string
	var forms []int
	for _, r := range views {
		if r.resumable {
			names, forms = append(names, r.view.Name()), append(forms, r.view.Form())
		}
	}
	if names == nil {
		return
	}
	var workspaces []events.ID
	var seqs []int64
	for _, s := range list {
		if s.from == 0 {
			workspaces, seqs = append(workspaces, s.workspace), append(seqs, s.to)
			continue
		}
		b.Queue(`update rebuilds set seq = $4 where workspace_id = $1 and view = any($2) and seq = $3`,
			s.workspace, names, s.from, s.to).Exec(requireRows(len(names)))
	}
	if len(workspaces) > 0 {
		b.Queue(`
			insert into rebuilds (workspace_id, view, seq, form, version)
			select w, v, s, f, $1 from unnest($2::text[], $3::int[]) as a (v, f), unnest($4::uuid[], $5::bigint[]) as t (w, s)
			on conflict do nothing`, config.Version, names, forms, workspaces, seqs).Exec(requireRows(len(names) * len(workspaces)))
	}
}

// requireRows returns a check that fails with errOvertaken unless a statement affects n rows.
func requireRows(n int) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != int64(n) {
			return errOvertaken
		}
		return nil
	}
}

// allViews counts the events of several views.
type allViews struct {
	progress    func(done, total int64) // or nil
	views       int64
	done, total int64
}

// advance adds events that were folded, and reports progress.
func (a *allViews) advance(n int64) {
	if a.done += n; a.progress != nil {
		a.progress(a.done/a.views, max(a.total, a.done)/a.views)
	}
}
