package integrity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

const (
	writeInterval   = 5 * time.Second  // between writes of the progress
	overdueRounds   = 3                // intervals without progress after which the comparison is overdue
	minOverdue      = 30 * time.Second // lower limit of that time
	progressTimeout = 10 * time.Second // of one statement
	maxMAC          = 64               // bytes that are read of one; longer than any
)

// A progress is the position of the comparison. It is stored in one row, so that another process can
// continue after one has ended, and every process sees whether there is progress.
type progress struct {
	Count   int64       // of writes by all processes
	Last    events.ID   // the last workspace that was compared in this round; zero at its beginning
	Process events.ID   // that wrote it
	Found   []events.ID // workspaces with problems
}

const progressPlace = "comparison_progress"

func (p progress) text() []byte {
	text := fmt.Appendf(nil, "%d/%s/%s", p.Count, p.Last, p.Process)
	for _, workspace := range p.Found {
		text = fmt.Appendf(text, "/%s", workspace)
	}
	return text
}

// A progressWatch has the newest progress. It ignores a row without a valid MAC, and one that is older
// than a row it has read before. It must not be used concurrently.
type progressWatch struct {
	db   *pgxpool.Pool
	keys store.Authenticator
	log  *slog.Logger
	self events.ID

	newest progress
	idle   time.Duration // time without progress, measured between successful reads
	readAt time.Time     // time of the last successful read; zero after a failed one
	forged bool          // the row was ignored, which was logged
}

// read reads the row. Time without reads, as in a suspended process, does not count as idle, nor does
// time before a failed read: a process that cannot read cannot write either.
func (w *progressWatch) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, progressTimeout)
	defer cancel()
	return w.readIn(ctx, w.db, "")
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// errUndecodable says that the row has a form that no process writes.
var errUndecodable = errors.New("it cannot be decoded")

// readProgress reads no more than a process writes, because somebody else's row may have up to a gigabyte.
func readProgress(ctx context.Context, db querier, lock string) (p progress, mac []byte, err error) {
	err = db.QueryRow(ctx, `
		select count, last, process, found[:$1::int], substr(mac, 1, $2) from comparison_progress `+lock, maxRemembered, maxMAC).
		Scan(&p.Count, &p.Last, &p.Process, &p.Found, &mac)
	if e, ok := errors.AsType[pgx.ScanArgError](err); ok {
		err = fmt.Errorf("%w: %w", errUndecodable, e)
	}
	return p, mac, err
}

func (w *progressWatch) readIn(ctx context.Context, db querier, lock string) error {
	began := time.Now()
	p, mac, err := readProgress(ctx, db, lock)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) && !errors.Is(err, errUndecodable) {
		w.readAt = time.Time{}
		return fmt.Errorf("read the progress of the comparison: %w", err)
	}
	if !w.readAt.IsZero() {
		w.idle += min(began.Sub(w.readAt), 2*writeInterval)
	}
	w.readAt = began
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // not written yet, or deleted by somebody
	}
	if err == nil {
		err = w.keys.CheckMAC(progressPlace, p.text(), mac)
	}
	switch {
	case err != nil || p.Count < w.newest.Count:
		if !w.forged {
			w.log.ErrorContext(ctx, "progress of the comparison was changed or set back by somebody else: ignored",
				"count", p.Count, "newest", w.newest.Count, "err", err)
		}
		w.forged = true
	case !bytes.Equal(p.text(), w.newest.text()):
		w.newest, w.idle, w.forged = p, 0, false
	}
	return nil
}

// write stores that this process has compared workspaces up to last, and found problems in some. If takeOver is
// false and another process has made progress meanwhile, it stores nothing and ok is false.
func (w *progressWatch) write(ctx context.Context, last events.ID, found []events.ID, takeOver bool) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, progressTimeout)
	defer cancel()
	var next progress
	begin := pgx.TxOptions{BeginQuery: `begin; set local idle_in_transaction_session_timeout = '10s'`} // should this host vanish
	err = pgx.BeginTxFunc(ctx, w.db, begin, func(tx pgx.Tx) error {
		if err := w.readIn(ctx, tx, "for update"); err != nil {
			return err
		}
		if !takeOver && w.idle == 0 && !w.own() {
			return nil
		}
		ok, next = true, progress{w.newest.Count + 1, last, w.self, found}
		mac, err := w.keys.MAC(progressPlace, next.text())
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			insert into comparison_progress (count, last, process, found, mac) values ($1, $2, $3, coalesce($4::uuid[], '{}'), $5)
			on conflict (one) do update set count = excluded.count, last = excluded.last, process = excluded.process,
				found = excluded.found, mac = excluded.mac`, next.Count, next.Last, next.Process, next.Found, mac)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("write the progress of the comparison: %w", err)
	}
	if ok {
		w.newest, w.idle = next, 0
	}
	return ok, nil
}

// own reports whether this process wrote the newest progress.
func (w *progressWatch) own() bool { return w.newest.Process == w.self }
