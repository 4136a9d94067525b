package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/farm/wire"
	"svc/fault"
)

// A runner that declines several jobs in a row gets none for a while, with exponential backoff,
// because each declined job costs three events in the log. After each pause it is offered one job,
// and no other until it accepts one.
const (
	freeDeclines = 3 // declines in a row without backoff
	minBackoff   = 10 * time.Second
	backoffMax   = 10 * time.Minute
)

// A declines is how many jobs in a row a runner declined, and until when it gets none for that.
type declines struct {
	Count int
	Until *time.Time
}

func (d declines) overLimit() bool { return d.Count >= freeDeclines }

func (d declines) inBackoff(now time.Time) bool { return d.Until != nil && now.Before(*d.Until) }

// A backoff has the declines of the runner of a connection.
type backoff struct {
	recording sync.Mutex // held while an accept or decline is recorded, here and in the database; locked before mu
	mu        sync.Mutex
	declines  declines
	version   int // incremented when declines changes other than by a refresh
}

// set takes over declines that were recorded in the database, and returns the former ones.
func (b *backoff) set(d declines) (before declines) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before = b.declines
	b.declines, b.version = d, b.version+1
	return before
}

// refresh is set for a value read when the version was as given. If declines has changed since, the
// value is out of date and dropped.
func (b *backoff) refresh(d declines, version int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.version == version {
		b.declines = d
	}
}

func (b *backoff) currentVersion() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version
}

// limit returns how many of the free slots the runner gets jobs for.
func (b *backoff) limit(u slotUsage, now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.declines.inBackoff(now):
		return 0
	case b.declines.overLimit():
		return max(0, min(u.free, 1-u.unanswered))
	}
	return u.free
}

// recordDecline records that a runner declined a job or did not answer. counts is false during its
// backoff: such a job was assigned before it began.
func (d *Dispatcher) recordDecline(ctx context.Context, workspace, runner events.ID, reason string) (
	after declines, counts bool, err error,
) {
	rows, _ := d.DB.Query(ctx, `
		update runner_presence set declined = declined + 1, decline_reason = $3, rests_until = case when declined + 1 >= $5
			then $4::timestamptz + least($6::float8 * power(2, least(declined + 1 - $5, 20)), $7) * interval '1 second' end
		where workspace_id = $1 and runner_id = $2 and coalesce(rests_until, '-infinity') <= $4
		returning declined, rests_until`,
		workspace, runner, reason, d.Now(), freeDeclines, minBackoff.Seconds(), backoffMax.Seconds())
	after, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[declines])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return after, false, nil
	case err != nil:
		return after, false, fmt.Errorf("record a decline of runner %s: %w", runner, err)
	}
	return after, true, nil
}

// NoteDecline records that the runner declined a job.
func (c *connection) NoteDecline(ctx context.Context, reason string) error {
	c.backoff.recording.Lock()
	defer c.backoff.recording.Unlock()
	after, counts, err := c.d.recordDecline(ctx, c.runner.Workspace, c.runner.ID, reason)
	if counts {
		c.backoff.set(after)
	}
	return err
}

// NoteAccept records that the runner accepted a job, which ends its backoff.
func (c *connection) NoteAccept(ctx context.Context, job events.ID, epoch int) error {
	c.backoff.recording.Lock()
	defer c.backoff.recording.Unlock()
	before := c.backoff.set(declines{})
	c.slots.markAccepted(job, epoch)
	if before.Count == 0 {
		return nil
	}
	c.farm.wake()
	_, err := c.d.DB.Exec(ctx, `
		update runner_presence set declined = 0, decline_reason = '', rests_until = null where workspace_id = $1 and runner_id = $2`,
		c.runner.Workspace, c.runner.ID)
	return fault.Wrap(err, "record an accept of runner %s", c.runner.ID)
}

// forgetUnanswered forgets jobs that the runner was told of and did not answer, once the sweep has
// taken them away, so that their slots are free.
func (d *Dispatcher) forgetUnanswered(ctx context.Context, c *connection) error {
	verdicts, err := d.verdicts(ctx, c.runner, c.slots.unanswered())
	for k, v := range verdicts {
		if v.word == wire.StopJob {
			c.Forget(k.job, k.epoch)
		}
	}
	return err
}
