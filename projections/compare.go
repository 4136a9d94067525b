package projections

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

const (
	comparedRows  = 20_000 // that a comparison has in memory at most, of all views together
	comparedTries = 20     // of a log that grows: so often what is new is folded before rows are read
	foundAtMost   = 100    // differences of a log that are told one by one
)

// A Difference is a row that is not what the log says.
type Difference struct {
	View   string
	Key    string
	Stored string // the columns that differ, or all if the log knows no such row; "" if there is none
	Logged string // the same columns as the log says; "" if it knows no such row
}

func (d Difference) String() string {
	switch {
	case d.Stored == "":
		return fmt.Sprintf("%s %s: is missing, the log says %s", d.View, d.Key, d.Logged)
	case d.Logged == "":
		return fmt.Sprintf("%s %s: is not in the log, stored is %s", d.View, d.Key, d.Stored)
	}
	return fmt.Sprintf("%s %s: stored is %s, the log says %s", d.View, d.Key, d.Stored, d.Logged)
}

// A Compared is what came of a comparison.
type Compared struct {
	Events      int64 // up to which the log was folded
	Rows        int   // that were compared
	Differences []Difference
	More        int      // differences beyond those
	Skipped     []string // views that could not be compared, and why
}

// A Pause leaves the database to others for a while after a piece of work that took
// so long.
type Pause func(ctx context.Context, worked time.Duration) error

// NoPause goes on at once.
func NoPause(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// Compare folds the log of a workspace and holds the rows of every view, and of
// the tables of keys, against it. Each is compared at one position: that a
// followed view is behind is no difference. The log is folded in short statements;
// only rows, and what the log has gained meanwhile, are read in one transaction.
// What it has in memory is bounded however large the log is: it goes through it as
// often as that takes.
func Compare(ctx context.Context, db *pgxpool.Pool, workspace events.ID, pause Pause) (Compared, error) {
	return compareWithin(ctx, db, workspace, comparedRows, pause)
}

func compareWithin(ctx context.Context, db *pgxpool.Pool, workspace events.ID, limit int, pause Pause) (Compared, error) {
	c := &comparing{db: db, workspace: workspace, limit: limit, pause: pause}
	c.atOneMoment = func(ctx context.Context, do func(pgx.Tx) error) error {
		return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, do)
	}
	return c.run(ctx)
}

// run goes through the log in as many parts as it takes.
func (c *comparing) run(ctx context.Context) (Compared, error) {
	for parts := uint64(1); ; parts *= 2 {
		c.Compared, c.part = Compared{}, part{maphash.MakeSeed(), 0, parts}
		err := c.all(ctx)
		switch {
		case errors.Is(err, errTooMuch):
			continue
		case err != nil:
			return c.Compared, fmt.Errorf("compare views with log %s: %w", c.workspace, err)
		}
		return c.Compared, nil
	}
}

// errTooMuch says that a part of the rows is too large for memory.
var errTooMuch = errors.New("too many rows")

// A part is one of so many parts of the keys.
type part struct {
	seed maphash.Seed
	n    uint64
	of   uint64
}

func inPart[K comparable](p part, key K) bool {
	return p.of == 1 || maphash.Comparable(p.seed, key)%p.of == p.n
}

// A comparison folds a part of a view's rows and compares them with what is stored.
type comparison interface {
	// take folds the next event.
	take(r events.Record) error
	// size is how many rows it has in memory, or what takes as much room.
	size() int
	// queue queues reading what is stored and comparing it.
	queue(b *pgx.Batch, found *findings)
}

// A batcher is a pool or a transaction.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// comparing goes through a log once for each part.
type comparing struct {
	Compared
	db interface {
		store.Querier
		batcher
	}
	atOneMoment func(ctx context.Context, do func(pgx.Tx) error) error

	workspace events.ID
	limit     int
	pause     Pause
	part      part
	views     []*comparedView
}

// A comparedView is a view on its way through a log.
type comparedView struct {
	view    View
	fold    comparison
	at, to  int64 // it has taken in the events up to at, and is to take in those up to to
	beyond  int64 // the position of the view, if the log is shorter
	parked  map[int64]bool
	damaged []int64 // events that it has taken in, and that cannot be read now
	skipped string  // why it is not compared
}

func (c *comparing) all(ctx context.Context) error {
	for c.part.n = 0; c.part.n < c.part.of; c.part.n++ {
		c.views = nil
		for _, v := range All() {
			c.views = append(c.views, &comparedView{view: v, fold: v.comparison(c.workspace, c.part)})
		}
		if err := c.once(ctx); err != nil {
			return err
		}
	}
	return nil
}

// once compares one part.
func (c *comparing) once(ctx context.Context) error {
	if err := c.locate(ctx, c.db); err != nil {
		return err
	}
	for try := 1; ; try++ {
		if c.left() > page {
			if err := c.foldOn(ctx, c.db, c.pause); err != nil {
				return err
			}
		}
		began, done := time.Now(), false
		err := c.atOneMoment(ctx, func(tx pgx.Tx) error {
			if err := c.locate(ctx, tx); err != nil {
				return err
			}
			if c.left() > page && try < comparedTries {
				return nil
			}
			done = true
			if err := c.foldOn(ctx, tx, NoPause); err != nil {
				return err
			}
			return c.compare(ctx, tx)
		})
		if err != nil {
			return err
		}
		if err := c.pause(ctx, time.Since(began)); err != nil || done {
			return err
		}
	}
}

// errMoved says that a view has been set back while it was compared.
var errMoved = errors.New("it was rebuilt, or the log was set back, at the same time")

// locate finds out how far each view has come.
func (c *comparing) locate(ctx context.Context, db batcher) error {
	var head int64
	positions, forms := map[string]int64{}, map[string]int{}
	parked := map[string]map[int64]bool{}
	b := &pgx.Batch{}
	b.Queue(`select coalesce((select head from logs where workspace_id = $1), 0)`, c.workspace).QueryRow(func(row pgx.Row) error { return row.Scan(&head) })
	var name string
	var n int64
	b.Queue(`select view, seq from checkpoints where workspace_id = $1`, c.workspace).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { positions[name] = n; return nil })
		return err
	})
	b.Queue(`select view, seq from parked where workspace_id = $1`, c.workspace).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error {
			if parked[name] == nil {
				parked[name] = map[int64]bool{}
			}
			parked[name][n] = true
			return nil
		})
		return err
	})
	b.Queue(`select name, form from views`).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { forms[name] = int(n); return nil })
		return err
	})
	if err := db.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read positions: %w", err)
	}
	c.Events = head
	for _, v := range c.views {
		to, form := head, 1
		if followed(v.view) {
			to = positions[v.view.Name()]
		}
		if known := forms[v.view.Name()]; known > 0 {
			form = known
		}
		if form != v.view.form() {
			v.skipped = fmt.Sprintf("its rows have form %d, this build makes form %d: rebuild it", form, v.view.form())
		}
		if to < v.at && v.skipped == "" {
			return fmt.Errorf("view %s: %w", v.view.Name(), errMoved)
		}
		v.to, v.beyond, v.parked = min(to, head), 0, parked[v.view.Name()]
		if to > head {
			v.beyond = to
		}
	}
	return nil
}

// left is how many events at most are still to be folded.
func (c *comparing) left() (n int64) {
	for _, v := range c.views {
		if v.skipped == "" {
			n = max(n, v.to-v.at)
		}
	}
	return n
}

// foldOn folds up to where the views have come.
func (c *comparing) foldOn(ctx context.Context, db store.Querier, pause Pause) error {
	for c.left() > 0 {
		began := time.Now()
		from := c.begin()
		list, err := store.AnyAfter(ctx, db, c.workspace, from, page)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("event %d is missing", from+1)
		}
		size := 0
		for _, v := range c.views {
			if err := v.take(list); err != nil {
				return err
			}
			size += v.fold.size()
		}
		if size > c.limit {
			return errTooMuch
		}
		if err := pause(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// begin is behind which event to read on.
func (c *comparing) begin() int64 {
	from := int64(-1)
	for _, v := range c.views {
		if v.skipped == "" && v.at < v.to && (from < 0 || v.at < from) {
			from = v.at
		}
	}
	return from
}

// compare reads the rows of every view.
func (c *comparing) compare(ctx context.Context, tx pgx.Tx) error {
	b, f := &pgx.Batch{}, &findings{into: &c.Compared}
	for _, v := range c.views {
		if v.skipped != "" {
			if c.part.n == 0 {
				c.Skipped = append(c.Skipped, v.view.Name()+": "+v.skipped)
			}
			continue
		}
		if c.part.n == 0 {
			v.tellEvents(c.Events, f)
		}
		v.fold.queue(b, f)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	return nil
}

// tellEvents tells of what is wrong with the events that the view has taken in.
func (v *comparedView) tellEvents(head int64, f *findings) {
	if v.beyond > 0 {
		f.add(Difference{v.view.Name(), "position", fmt.Sprint(v.beyond), fmt.Sprint(head)})
	}
	for _, seq := range v.damaged {
		f.add(Difference{v.view.Name(), fmt.Sprintf("event %d", seq), "", "what cannot be read any more"})
	}
}

// findings gathers differences, of which it keeps a bounded number.
type findings struct{ into *Compared }

func (f *findings) add(d Difference) {
	if len(f.into.Differences) == foundAtMost {
		f.into.More++
		return
	}
	f.into.Differences = append(f.into.Differences, d)
}

// take folds those of a page of records that follow. What a followed view has gone
// on without is left out, as it is there; of what is damaged in the log of one that
// goes on without nothing, it is told.
func (v *comparedView) take(list []events.Record) error {
	for _, r := range list {
		if v.skipped != "" || r.Seq != v.at+1 || r.Seq > v.to {
			continue
		}
		v.at = r.Seq
		if v.parked[r.Seq] {
			continue
		}
		err := v.one(r)
		switch {
		case err == nil:
		case !poisonous(err):
			v.skipped = fmt.Sprintf("event %d: %v", r.Seq, err)
		case !followed(v.view):
			v.damaged = append(v.damaged, r.Seq)
		}
	}
	return nil
}

// one folds an event, unless it is nothing to the view.
func (v *comparedView) one(r events.Record) error {
	if unread, ok := r.Event.(events.Unread); ok && v.view != View(audit) {
		if !takes(v.view, unread.Name) {
			return nil
		}
		if _, err := events.Decode(unread.Name, r.Schema, r.Data); err != nil {
			return err
		}
	}
	return v.fold.take(r)
}

// strayLimit is how many workspaces Strays returns at most.
const strayLimit = 100

// Strays returns workspaces that have no log, but rows by which somebody may be let
// in, or keys. Nobody finds those by going through the logs.
func Strays(ctx context.Context, db store.Querier) ([]events.ID, error) {
	var parts []string
	for _, v := range slices.Concat(inlineViews, keyViews) {
		parts = append(parts, `select workspace_id from `+v.Name()+` t where not exists (select from logs l where l.workspace_id = t.workspace_id)`)
	}
	rows, _ := db.Query(ctx, strings.Join(parts, " union ")+` limit $1`, strayLimit)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err != nil {
		return nil, fmt.Errorf("find rows without a log: %w", err)
	}
	return list, nil
}
