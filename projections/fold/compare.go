package fold

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
	"svc/fault"
)

const (
	maxComparedRows = 20_000 // rows that a comparison keeps in memory, over all views
	maxParts        = 1024   // parts of a log's rows
	maxCompareTries = 20     // rounds of folding new events before a growing log is compared anyway
	maxDifferences  = 100    // differences of a log that are reported one by one
)

// A Difference is a stored row that differs from what the log says.
type Difference struct {
	Workspace events.ID
	View      string
	Key       string
	Stored    string // the columns that differ, or all of them if the log has no such row; "" if no row is stored
	Logged    string // the same columns according to the log; "" if the log has no such row
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

// A CompareResult is the result of comparing views with the log of one workspace.
type CompareResult struct {
	Events      int64        // last event of the log
	Rows        int          // how many rows were compared
	Behind      []ViewBehind // followed views that were compared at an earlier event
	Differences []Difference
	More        int      // how many differences there are beyond the listed ones
	Skipped     []string // views that could not be compared, and why
}

// A ViewBehind is a view that has not processed all events of a log.
type ViewBehind struct {
	View string
	Seq  int64 // last event that it has processed
}

// A Pause is called after each piece of work with the time that it took. It sleeps, so that other
// users of the database get their turn.
type Pause func(ctx context.Context, worked time.Duration) error

// NoPause does not sleep.
func NoPause(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// Compare folds the log of a workspace and compares the rows of views with the result. Each view is
// compared at its own checkpoint, so a followed view that lags does not count as different. The log
// is folded in short statements; only the rows and the events appended meanwhile are read in one
// transaction. Memory is bounded however large the log is: if the rows do not fit, Compare goes
// through the log several times, for a part of the keys each time.
func Compare(ctx context.Context, db *pgxpool.Pool, views []View, workspace events.ID, pause Pause) (CompareResult, error) {
	return compareWithin(ctx, db, views, workspace, maxComparedRows, pause)
}

func compareWithin(ctx context.Context, db *pgxpool.Pool, views []View, workspace events.ID, limit int,
	pause Pause) (CompareResult, error) {
	c := &comparer{db: db, targets: views, workspace: workspace, limit: limit, pause: pause}
	c.inSnapshot = func(ctx context.Context, do func(pgx.Tx) error) error {
		return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, do)
	}
	return c.run(ctx)
}

// run compares everything in one part, and doubles the number of parts while a part does not fit in
// memory.
func (c *comparer) run(ctx context.Context) (CompareResult, error) {
	for parts := uint64(1); ; parts *= 2 {
		c.CompareResult, c.part = CompareResult{}, Part{maphash.MakeSeed(), 0, parts}
		err := c.compareParts(ctx)
		switch {
		case errors.Is(err, errTooManyRows) && parts < maxParts:
			continue
		case err != nil:
			return c.CompareResult, fmt.Errorf("compare views with log %s: %w", c.workspace, err)
		}
		return c.CompareResult, nil
	}
}

// errTooManyRows says that the rows of a part do not fit in memory.
var errTooManyRows = fmt.Errorf("too many rows, also for %d parts", maxParts)

// A Part is one of several parts into which keys are divided by their hash. The zero Part has all keys.
type Part struct {
	seed maphash.Seed
	n    uint64 // number of this part, from 0
	of   uint64 // number of parts
}

// InPart reports whether a key is in a part.
func InPart[K comparable](p Part, key K) bool {
	return p.of <= 1 || maphash.Comparable(p.seed, key)%p.of == p.n
}

// A Comparison folds a part of a view's rows and compares them with what is stored.
type Comparison interface {
	// Fold folds the next event.
	Fold(r events.Record) error
	// Size returns the number of rows in memory, or an equivalent for other data; see [RowBytes].
	Size() int
	// Queue queues a query for the stored rows. Its result is compared and reported to found.
	Queue(b *pgx.Batch, found *Findings)
}

// A preparer is a [Comparison] that needs stored rows to fold events.
type preparer interface {
	// Prepare is called before Fold, with the next events up to a page.
	Prepare(ctx context.Context, db Batcher, records []events.Record) error
}

// RowBytes is the approximate size of a usual row in memory. A [Comparison] counts data of that size as a row.
const RowBytes = 4 << 10

// A Batcher is a pool or a transaction.
type Batcher = follow.Batcher

// A querier is a pool or a transaction.
type querier interface {
	store.Querier
	Batcher
}

// comparer compares one workspace. It goes through the log once for each part.
type comparer struct {
	CompareResult
	db         querier
	inSnapshot func(ctx context.Context, do func(pgx.Tx) error) error

	targets    []View
	workspace  events.ID
	limit      int
	pause      Pause
	part       Part
	views      []*comparedView
	beyondHead map[string]int64 // positions beyond the head that belong to no compared view
}

func (c *comparer) compareParts(ctx context.Context) error {
	for c.part.n = 0; c.part.n < c.part.of; c.part.n++ {
		c.views = nil
		for _, v := range c.targets {
			c.views = append(c.views, &comparedView{view: v, comparison: v.Comparison(c.workspace, c.part)})
		}
		if err := c.comparePart(ctx); err != nil {
			return err
		}
	}
	return nil
}

// comparePart compares one part. It folds outside a transaction while the log is far ahead, and reads the
// last events and the rows in one snapshot.
func (c *comparer) comparePart(ctx context.Context) error {
	if err := c.locate(ctx, c.db); err != nil {
		return err
	}
	for try := 1; ; try++ {
		if c.remaining() > page {
			if err := c.foldRemaining(ctx, c.db, c.pause); err != nil {
				return err
			}
		}
		began, done := time.Now(), false
		err := c.inSnapshot(ctx, func(tx pgx.Tx) error {
			if err := c.locate(ctx, tx); err != nil {
				return err
			}
			if c.remaining() > page && try < maxCompareTries {
				return nil
			}
			done = true
			if err := c.foldRemaining(ctx, tx, NoPause); err != nil {
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

// remaining returns the largest number of events that a view has still to fold.
func (c *comparer) remaining() (n int64) {
	for _, v := range c.views {
		if v.skipped == "" {
			n = max(n, v.to-v.at)
		}
	}
	return n
}

// foldRemaining folds the log up to the views' checkpoints.
func (c *comparer) foldRemaining(ctx context.Context, db querier, pause Pause) error {
	for c.remaining() > 0 {
		began := time.Now()
		from, to := c.nextRange()
		list, err := store.Page{
			Logs: store.After(c.workspace, from), Limit: int(min(page, to-from)), Decode: store.Lenient,
		}.Read(ctx, db)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("event %d is missing", from+1)
		}
		size := 0
		for _, v := range c.views {
			if err := v.foldPage(ctx, db, list); err != nil {
				return err
			}
			size += v.comparison.Size()
		}
		if size > c.limit {
			return errTooManyRows
		}
		if err := pause(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// nextRange returns the position after which to read next, and the position to read up to.
func (c *comparer) nextRange() (from, to int64) {
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

// compare compares the stored rows of every view.
func (c *comparer) compare(ctx context.Context, tx pgx.Tx) error {
	b, f := &pgx.Batch{}, &Findings{c.workspace, &c.CompareResult}
	if c.part.n == 0 {
		c.reportPositions(f)
	}
	for _, v := range c.views {
		if v.skipped != "" {
			if why := v.view.Name() + ": " + v.skipped; !slices.Contains(c.Skipped, why) { // in an earlier part
				c.Skipped = append(c.Skipped, why)
			}
			continue
		}
		if c.part.n == 0 {
			v.reportEvents(c.Events, f)
			if v.to < c.Events {
				c.Behind = append(c.Behind, ViewBehind{v.view.Name(), v.to})
			}
		}
		v.comparison.Queue(b, f)
	}
	return fault.Wrap(tx.SendBatch(ctx, b).Close(), "read rows")
}

// Findings collects differences, up to a maximum.
type Findings struct {
	workspace events.ID
	result    *CompareResult
}

// CountRow counts a row that was compared.
func (f *Findings) CountRow() { f.result.Rows++ }

// Add reports a row that differs.
func (f *Findings) Add(view, key, stored, logged string) {
	if len(f.result.Differences) == maxDifferences {
		f.result.More++
		return
	}
	f.result.Differences = append(f.result.Differences, Difference{f.workspace, view, key, stored, logged})
}

const (
	maxOrphaned   = 100             // workspaces that OrphanedWorkspaces returns
	orphanTimeout = 5 * time.Minute // timeout for a view, whose table it reads as a whole
)

// OrphanedWorkspaces returns workspaces that have no log but have rows in views that are not followed. Such
// rows could grant access, and comparing log by log does not find them. OrphanedWorkspaces reads one view at a
// time and returns at most a hundred workspaces.
func OrphanedWorkspaces(ctx context.Context, db store.Querier, views []View, pause Pause) (list []events.ID, err error) {
	for _, v := range views {
		if v.Mode() == Followed { // followed views grant no access
			continue
		}
		began := time.Now()
		found, err := orphanedIn(ctx, db, v)
		if err != nil {
			return nil, fmt.Errorf("find rows of view %s without a log: %w", v.Name(), err)
		}
		for _, workspace := range found {
			if !slices.Contains(list, workspace) && len(list) < maxOrphaned {
				list = append(list, workspace)
			}
		}
		if err := pause(ctx, time.Since(began)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func orphanedIn(ctx context.Context, db store.Querier, v View) ([]events.ID, error) {
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout)
	defer cancel()
	rows, _ := db.Query(ctx, `
		select distinct workspace_id from `+v.Name()+` t
		where not exists (select from logs l where l.workspace_id = t.workspace_id) limit $1`, maxOrphaned)
	return pgx.CollectRows(rows, pgx.RowTo[events.ID])
}
