package proof

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	minPollInterval = 2 * time.Second  // shortest pause between polls
	pollTimeShare   = 50               // polling takes at most one part in pollTimeShare of the time
	pollTimeout     = 10 * time.Second // timeout of a poll
	maxLogged       = 10               // overdue logs that one poll logs
)

// An overdueWatch finds the logs that are not signed in time. Every process has one, so that a signer
// that fails is noticed.
type overdueWatch struct {
	db  *pgxpool.Pool
	log *slog.Logger

	waiting map[events.ID]waitingLog // logs that were unsigned at the last poll
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

// poll finds the logs that are unsigned. passed is the time since the last poll.
func (o *overdueWatch) poll(ctx context.Context, passed time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	tails, err := unsignedTails(ctx, o.db, nil)
	if err != nil {
		return err
	}
	waiting := make(map[events.ID]waitingLog, len(tails))
	late := int64(0)
	for workspace, t := range tails {
		w, seen := o.waiting[workspace]
		if !seen || t.signed >= w.head && t.signed < t.head { // progress was made
			waiting[workspace] = waitingLog{head: t.head}
			continue
		}
		if w.unsignedFor += passed; w.unsignedFor > signingTime {
			late++
			if !w.logged && late <= maxLogged {
				w.logged = true
				o.log.ErrorContext(ctx, "log has unsigned events", "workspace", workspace, "head", t.head, "signed", t.signed, "for", w.unsignedFor)
			}
		}
		waiting[workspace] = w
	}
	if before := o.count.Swap(late); late == 0 && before > 0 {
		o.log.InfoContext(ctx, "all logs are signed again", "logs", before)
	}
	o.waiting = waiting
	return nil
}
