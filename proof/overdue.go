package proof

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	lookEvery = 2 * time.Second  // for what is overdue, if a look takes no longer than lookShare allows
	lookShare = 50               // of the time, one part in so many at most is for looking
	lookLimit = 10 * time.Second // that a look may take
	watched   = 1000             // logs at once: more only tell the same
	named     = 10               // of those that a look finds overdue, so many are named
)

// An overdue knows which logs should have been signed for and are not. Every
// process has one, whoever signs: that is what it does not rely on.
type overdue struct {
	db  *pgxpool.Pool
	log *slog.Logger

	waiting map[events.ID]wait // logs that were not signed for when it last looked
	count   atomic.Int64       // of those that are overdue
}

// A wait is for a log to be signed for up to a head.
type wait struct {
	head int64
	seen time.Duration // for so long it has been seen not to be
	told bool          // the log of the service has it
}

// run looks again and again until ctx ends. Time that goes by without a look, as
// in a process that was stopped, does not count, nor do looks that failed: who
// could not look could not sign either.
func (o *overdue) run(ctx context.Context) {
	var last time.Time
	for pause := lookEvery; ctx.Err() == nil; {
		began := time.Now()
		passed := min(began.Sub(last), 2*pause)
		if last.IsZero() {
			passed = 0
		}
		last = began
		if err := o.look(ctx, passed); err != nil {
			last = time.Time{}
			if ctx.Err() == nil {
				o.log.WarnContext(ctx, "look for logs that are not signed for", "err", err)
			}
		}
		pause = max(lookEvery, lookShare*time.Since(began))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// look finds the logs that are not signed for. Since the last look so much time has
// passed.
func (o *overdue) look(ctx context.Context, passed time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	rows, _ := o.db.Query(ctx, tailsSQL+` order by 1 limit $1`, watched)
	waiting := map[events.ID]wait{}
	var workspace events.ID
	var t tail
	late := int64(0)
	_, err := pgx.ForEachRow(rows, []any{&workspace, &t.head, &t.signed}, func() error {
		w, known := o.waiting[workspace]
		if !known || t.signed >= w.head && t.signed < t.head { // it is gone on with
			waiting[workspace] = wait{head: t.head}
			return nil
		}
		if w.seen += passed; w.seen > signingTime {
			late++
			if !w.told && late <= named {
				w.told = true
				o.log.ErrorContext(ctx, "log is not signed for", "workspace", workspace, "head", t.head, "signed", t.signed, "for", w.seen)
			}
		}
		waiting[workspace] = w
		return nil
	})
	if err != nil {
		return err
	}
	if before := o.count.Swap(late); late == 0 && before > 0 {
		o.log.InfoContext(ctx, "all logs are signed for again", "logs", before)
	}
	o.waiting = waiting
	return nil
}
