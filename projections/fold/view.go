// Package fold maintains views: tables whose rows are folds of events.
//
// A view's fold function computes a row from the events that touch it. The package derives
// everything else from that function. An inline view changes in the transaction that appends, a
// followed one a moment later, and a rebuild folds all logs again and must produce the same rows.
// The package knows no particular view; callers pass them in.
//
//	inline    in the transaction that appends    read the rows touched, fold, write
//	followed  a moment later, by [Follower]      the same, up to 1,000 events or 4 MiB at a time,
//	                                             with the checkpoint in the same transaction
//	rebuilt   when an operator asks, by package rebuild: fold all logs in memory, COPY
//
// # Followed views
//
// A checkpoint records how far a view has come in a log. It changes in the transaction that changes
// the view's rows. So each view gets stuck, is rebuilt, moves to another process and is waited for
// independently. A view decodes only the events of its kinds. Of the others it checks that no
// number is missing and that the kind is known. A damaged event therefore affects only the views
// that fold it.
//
// Views are level while their checkpoints in a log lie within a page of each other. Level views
// share a pass: one read of the events, one transaction, one statement for the checkpoints; the
// next page is read while this one is written. The pass remembers the checkpoints from the previous
// page and claims them by compare-and-swap, all or none. Only if that fails does it read and lock
// those that nobody else holds. A view that is further behind, or whose checkpoint is held, is
// followed alone until it is level again. So is every view of a log in which the pass fails. No
// view delays another.
//
// A followed view parks a poison event: one that cannot be decoded, that the fold function fails
// on, or whose row PostgreSQL refuses. The follower finds it by halving the page, stores it with
// the error, and goes on without it. Operators can list, retry and skip parked events. Skipping
// means that an operator has looked; the next rebuild parks the event again if it still fails. An
// unknown kind is not parked: a newer build wrote it, so the view waits for that build. Inline
// views never skip an event: the append fails.
//
// # Comparison
//
// [Compare] folds a log with the same functions and compares every row of every view, each at the
// view's own checkpoint. It compares values in the form in which PostgreSQL sends them.
package fold

import (
	"context"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// Mode says how a view is kept up to date.
type Mode int

// Ways in which a view is kept up to date.
const (
	Inline   Mode = iota + 1 // by the transaction that appends
	Followed                 // by a [Follower]
	ByAppend                 // by the append's own statements; the view says what the rows should be
)

// A View is a table that is folded from events. [Table] implements it.
type View interface {
	// Name returns the name of the view and of its table.
	Name() string
	// Mode returns how the view is kept up to date.
	Mode() Mode
	// Form returns the version of the rows' form, from 1. Rows of an older form need a rebuild.
	Form() int
	// Folds reports whether the view folds events of a kind.
	Folds(kind string) bool
	// FoldsDamaged reports whether the view also folds events of known kinds that cannot be decoded.
	FoldsDamaged() bool
	// PrimaryKey returns the columns that order the rows.
	PrimaryKey() []string
	// LookupIndexes returns the indexes by which existing rows are found.
	LookupIndexes() []string
	// Read reads the next page of logs, up to limit events of each. It need not decode events that the view
	// does not fold.
	Read(ctx context.Context, db store.Querier, list []store.Position, limit int) ([]events.Record, error)
	// Load queues reading the rows that records touch. The step it returns folds the records into the rows
	// and queues writing what changed. The step is nil if the records touch no rows.
	Load(b *pgx.Batch, table string, records []events.Record) Step
	// Loader returns a loader of rows into a table. If onto is false, the table has no rows of the logs that
	// will be folded. If it is true, the records continue one log whose earlier events are in the table.
	Loader(table string, onto bool) Loader
	// Comparison returns a comparison of a part of a workspace's rows with its log.
	Comparison(workspace events.ID, p Part) Comparison
}

// A Step queues the statements of one round trip, after the previous ones were carried out. It
// returns the step after it, or nil.
type Step func(b *pgx.Batch) (next Step, err error)

// A Loader folds many events into rows in memory, and writes the rows to a table at once.
type Loader interface {
	// Fold folds the next records, one log after the other. It passes events that cannot be folded to park.
	Fold(ctx context.Context, tx pgx.Tx, records []events.Record, park ParkFunc) error
	// Write writes the rows. No more is folded after it.
	Write(ctx context.Context, tx pgx.Tx) error
}

// A ParkFunc decides about an event that cannot be folded: nil skips the event, an error aborts.
type ParkFunc func(workspace events.ID, seq int64, err error) error

// ViewsWithMode returns the views of list that are kept up to date in the given way.
func ViewsWithMode(list []View, by Mode) (kept []View) {
	for _, v := range list {
		if v.Mode() == by {
			kept = append(kept, v)
		}
	}
	return kept
}
