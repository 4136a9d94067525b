// Package fold keeps tables that are folds of events.
//
// A view is a table of which each row is what is left of the events that touched
// it. One function for each view says so, and everything else follows from it and
// is here: an inline view changes in the transaction that appends, a followed one
// a moment later, and a rebuild folds the whole log again and must come to the
// same rows. The package knows no view: it is given them.
//
//	inline    in the transaction that appends    read the rows touched, fold, write
//	followed  a moment later, by [Follower]      the same, up to 1,000 events at a time, with the
//	                                             checkpoint in the same transaction
//	rebuilt   when an operator asks, [Rebuild]   fold the whole log in memory, COPY
//
// # Followed views
//
// How far a view has come in a log is its checkpoint there, a row that changes in
// the transaction that changes the view's. So each view stands still, is rebuilt,
// is handed over to another process and is waited for by itself. A view decodes
// the events of its nouns alone; of the others it looks only that their numbers
// are there and their kinds known. Damage in an event therefore concerns the views
// that take it in.
//
// Views that are level, within a page of each other, share a pass: one read of the
// events, one transaction, one statement for the checkpoints; the next page is read
// while one is written. Where they are the pass knows from the page before: it claims
// their checkpoints by moving them from there, all or none, and looks and holds what
// nobody else does only where that fails. A view that is further behind or whose
// checkpoint is held is followed alone until it is level again, and so is every view
// of a log in which the pass fails: none holds up the others.
//
// An event that a followed view cannot take in, because its bytes are damaged, the
// fold makes nothing of it or PostgreSQL refuses the row, is found by halving the
// page, and parked with the error; the view goes on without it. Operators list
// such events, try them again and skip them. What was skipped is parked again by
// the next rebuild if it still cannot be taken in: skipping says that somebody has
// looked. A kind that is not known is not such an event: a newer build wrote it, so
// the view waits for one. Inline views never go on without an event: the append
// fails.
//
// # Rebuilds
//
// A second table is folded from the log without indexes, while two readers decode
// what comes next. Up to 1,000 logs or 20,000 events share a transaction; of a
// longer log the rest follows in transactions of as many, which find the rows that
// are there by the primary key, made by then. The table is indexed, analyzed, and
// catches up; then, under an exclusive lock with a limit of 500 ms, it takes in the
// last events and is put in the place of the first. Index names are those of the
// migrations again, owner and rights those of the table before. While others hold
// the view without a pause it tries again for half an hour.
//
// At each commit the rows that the second table has of a log are the fold of its
// events up to the log's position in rebuilds, which moves from where it was in the
// transaction that writes the rows. So a rebuild that was killed is gone on with
// from there. Two rebuilds never write to one table: one connection holds a lock for
// all the time, and where that is lost the first one finds positions that it has not
// moved, or no lock when it is to swap, and ends.
//
// # Comparison
//
// [Compare] folds a log with the same functions and holds every row of every view
// against it, each view at its own checkpoint. Values are compared in the form in
// which PostgreSQL sends them.
package fold

import (
	"context"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// Kept says who keeps a view up to date.
type Kept int

// Who keeps a view.
const (
	Inline   Kept = iota + 1 // the transaction that appends
	Followed                 // a [Follower]
	ByAppend                 // the append itself, which has to know its rows; the view tells what they should be
)

// A View is a table that is folded from events, whatever its rows are. A [Table]
// is one.
type View interface {
	// Name is that of the view and of its table.
	Name() string
	// Kept says who keeps it.
	Kept() Kept
	// Form counts the forms that the rows have had, from 1.
	Form() int
	// Takes reports whether it takes in events of a kind.
	Takes(kind string) bool
	// TakesUnread reports whether it takes in also what cannot be decoded.
	TakesUnread() bool
	// PrimaryKey names the columns that order the rows.
	PrimaryKey() []string
	// Lookups names the indexes by which rows are found that are there.
	Lookups() []string
	// After reads on in logs, as store.AfterKinds does. What the view does not take
	// in need not be decoded.
	After(ctx context.Context, db store.Querier, list []store.Position, limit int) ([]events.Record, error)
	// Load queues reading the rows that records touch. The step that it returns
	// folds the records into them and queues writing what changed; it is nil if
	// they touch none.
	Load(b *pgx.Batch, table string, records []events.Record) Step
	// Copy folds what next returns, until that is nothing, and writes the rows to a
	// table. That has none of these logs, unless behind says that it has those that
	// the one log came to before. It hands park what cannot be folded.
	Copy(ctx context.Context, tx pgx.Tx, table string, behind bool, next func() ([]events.Record, error), park Park) error
	// Comparison begins to compare a part of the rows of a workspace with its log.
	Comparison(workspace events.ID, p Part) Comparison
}

// A Step queues a round trip, when what was queued before has been carried out.
// next, unless it is nil, is the step after it.
type Step func(b *pgx.Batch) (next Step, err error)

// A Park decides about an event that cannot be taken in: nil leaves it out, an
// error is the end.
type Park func(workspace events.ID, seq int64, err error) error

// ThoseKept returns the views of list that are kept so.
func ThoseKept(list []View, by Kept) (kept []View) {
	for _, v := range list {
		if v.Kept() == by {
			kept = append(kept, v)
		}
	}
	return kept
}
