package proof

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	minPollInterval = 2 * time.Second  // shortest pause between polls
	pollTimeShare   = 50               // polling takes at most one part in pollTimeShare of the time
	pollTimeout     = 10 * time.Second // timeout of a poll
	maxWatched      = 1000             // logs that are watched at a time
	maxLogged       = 10               // overdue logs that one poll logs
)

// An overdueWatch finds the logs that are not signed in time. Every process has one, so that a signer
// that fails is noticed.
type overdueWatch struct {
	db  *pgxpool.Pool
	log *slog.Logger

	limit   int                      // of the logs that are watched at a time
	waiting map[events.ID]waitingLog // logs that were unsigned at the last poll
	last    events.ID                // up to this one, logs were looked at in this round; zero at its beginning
	count   atomic.Int64             // number of overdue logs
}

// A waitingLog is the wait for a log to be signed up to a head.
type waitingLog struct {
	head        int64
	unsignedFor time.Duration // how long it was seen unsigned
	logged      bool          // it was logged
}

// run polls until ctx ends. Time without a poll, as in a suspended process, does not count as
// waiting, nor does time before a failed poll: a process that cannot query cannot sign
// either.
func (o *overdueWatch) run(ctx context.Context) {
	var last time.Time
	for pause := minPollInterval; ctx.Err() == nil; {
		began := time.Now()
		passed := min(began.Sub(last), 2*pause)
		if last.IsZero() {
			passed = 0
		}
		last = began
		if err := o.poll(ctx, passed); err != nil {
			last = time.Time{}
			if ctx.Err() == nil {
				o.log.WarnContext(ctx, "find logs with unsigned events", "err", err)
			}
		}
		pause = max(minPollInterval, pollTimeShare*time.Since(began))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// poll finds the logs that are unsigned. passed is the time since the last poll. It first looks again at the logs
// that were unsigned at the last poll, and then at the next ones, so that logs that are busy hide none.
func (o *overdueWatch) poll(ctx context.Context, passed time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	waiting := map[events.ID]waitingLog{}
	late := int64(0)
	rows, _ := o.db.Query(ctx, tailsSQL+tailsOfSQL, slices.AppendSeq([]events.ID{}, maps.Keys(o.waiting)))
	var workspace events.ID
	var t unsignedTail
	_, err := pgx.ForEachRow(rows, []any{&workspace, &t.head, &t.signed}, func() error {
		w := o.waiting[workspace]
		if t.signed >= w.head && t.signed < t.head { // progress was made
			return nil
		}
		if w.unsignedFor += passed; w.unsignedFor > signingTime {
			late++
			if !w.logged && late <= maxLogged {
				w.logged = true
				o.log.ErrorContext(ctx, "log has unsigned events", "workspace", workspace, "head", t.head, "signed", t.signed, "for", w.unsignedFor)
			}
		}
		waiting[workspace] = w
		return nil
	})
	if err != nil {
		return err
	}
	last, err := o.watchMore(ctx, waiting)
	if err != nil {
		return err
	}
	if before := o.count.Swap(late); late == 0 && before > 0 {
		o.log.InfoContext(ctx, "all logs are signed again", "logs", before)
	}
	o.waiting, o.last = waiting, last
	return nil
}

// watchMore adds the unsigned logs after the last one to waiting, up to the limit. It returns the last of them, zero
// at the end.
func (o *overdueWatch) watchMore(ctx context.Context, waiting map[events.ID]waitingLog) (last events.ID, err error) {
	room := o.limit - len(waiting)
	if room == 0 {
		return o.last, nil
	}
	rows, _ := o.db.Query(ctx, tailsSQL+` and l.workspace_id > $1 and l.workspace_id <> all($2) order by 1 limit $3`,
		o.last, slices.AppendSeq([]events.ID{}, maps.Keys(waiting)), room)
	var t unsignedTail
	var workspace events.ID
	_, err = pgx.ForEachRow(rows, []any{&workspace, &t.head, &t.signed}, func() error {
		waiting[workspace], last = waitingLog{head: t.head}, workspace
		room--
		return nil
	})
	if room > 0 {
		last = events.ID{}
	}
	return last, err
}
