package fold

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
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
	Workspace events.ID
	View      string
	Key       string
	Stored    string // the columns that differ, or all if the log knows no such row; "" if there is none
	Logged    string // the same columns as the log says; "" if it knows no such row
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

// Compare folds the log of a workspace and holds the rows of views against it. Each is compared at one position: that a
// followed view is behind is no difference. The log is folded in short statements;
// only rows, and what the log has gained meanwhile, are read in one transaction.
// What it has in memory is bounded however large the log is: it goes through it as
// often as that takes.
func Compare(ctx context.Context, db *pgxpool.Pool, views []View, workspace events.ID, pause Pause) (Compared, error) {
	return compareWithin(ctx, db, views, workspace, comparedRows, pause)
}

func compareWithin(ctx context.Context, db *pgxpool.Pool, views []View, workspace events.ID, limit int, pause Pause) (Compared, error) {
	c := &comparing{db: db, of: views, workspace: workspace, limit: limit, pause: pause}
	c.atOneMoment = func(ctx context.Context, do func(pgx.Tx) error) error {
		return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, do)
	}
	return c.run(ctx)
}

// run goes through the log in as many parts as it takes.
func (c *comparing) run(ctx context.Context) (Compared, error) {
	for parts := uint64(1); ; parts *= 2 {
		c.Compared, c.part = Compared{}, Part{maphash.MakeSeed(), 0, parts}
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

// A Part is one of so many parts of the keys.
type Part struct {
	seed maphash.Seed
	n    uint64
	of   uint64
}

// InPart reports whether a key is in a part.
func InPart[K comparable](p Part, key K) bool {
	return p.of == 1 || maphash.Comparable(p.seed, key)%p.of == p.n
}

// A Comparison folds a part of a view's rows and compares them with what is stored.
type Comparison interface {
	// Take folds the next event.
	Take(r events.Record) error
	// Size is how many rows it has in memory, or what takes as much room.
	Size() int
	// Queue queues reading what is stored and comparing it.
	Queue(b *pgx.Batch, found *Findings)
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

	of        []View
	workspace events.ID
	limit     int
	pause     Pause
	part      Part
	views     []*comparedView
	ahead     map[string]int64 // positions beyond the head, of what is no view
}

func (c *comparing) all(ctx context.Context) error {
	for c.part.n = 0; c.part.n < c.part.of; c.part.n++ {
		c.views = nil
		for _, v := range c.of {
			c.views = append(c.views, &comparedView{view: v, fold: v.Comparison(c.workspace, c.part)})
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
		from, to := c.span()
		list, err := store.AnyAfter(ctx, db, c.workspace, from, int(min(page, to-from))) // what is beyond the head is nobody's
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
			size += v.fold.Size()
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

// span is behind which event to read on, and up to which.
func (c *comparing) span() (from, to int64) {
	from = -1
	for _, v := range c.views {
		if v.skipped == "" && v.at < v.to {
			to = max(to, v.to)
			if from < 0 || v.at < from {
				from = v.at
			}
		}
	}
	return from, to
}

// compare reads the rows of every view.
func (c *comparing) compare(ctx context.Context, tx pgx.Tx) error {
	b, f := &pgx.Batch{}, &Findings{c.workspace, &c.Compared}
	if c.part.n == 0 {
		c.tellPositions(f)
	}
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
		v.fold.Queue(b, f)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	return nil
}

// Findings gathers differences, of which it keeps a bounded number.
type Findings struct {
	workspace events.ID
	into      *Compared
}

// Compared notes that a row was compared.
func (f *Findings) Compared() { f.into.Rows++ }

// Add notes that a row differs.
func (f *Findings) Add(view, key, stored, logged string) {
	if len(f.into.Differences) == foundAtMost {
		f.into.More++
		return
	}
	f.into.Differences = append(f.into.Differences, Difference{f.workspace, view, key, stored, logged})
}

// strayLimit is how many workspaces Strays returns at most.
const strayLimit = 100

// Strays returns workspaces that have no log, but rows by which somebody may be let
// in, or keys. Nobody finds those by going through the logs.
func Strays(ctx context.Context, db store.Querier, views []View) ([]events.ID, error) {
	var parts []string
	for _, v := range views {
		if v.Kept() == Followed { // which lets nobody in
			continue
		}
		parts = append(parts, `select workspace_id from `+v.Name()+` t where not exists (select from logs l where l.workspace_id = t.workspace_id)`)
	}
	rows, _ := db.Query(ctx, strings.Join(parts, " union ")+` limit $1`, strayLimit)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err != nil {
		return nil, fmt.Errorf("find rows without a log: %w", err)
	}
	return list, nil
}
