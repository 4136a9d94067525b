package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/farm/wire"
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

// recordDecline records that a runner declined a job or did not answer. counts is false during its
// backoff: such a job was assigned before it began.
func (d *Dispatcher) recordDecline(ctx context.Context, workspace, runner events.ID, reason string) (after declines, counts bool, err error) {
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
		return after, false, fmt.Errorf("note that runner %s declined a job: %w", runner, err)
	}
	return after, true, nil
}

// markDeclined keeps the slot of a declined job occupied until the decline is recorded. Otherwise
// the runner would be given another job before its backoff begins.
func (c *connection) markDeclined(job events.ID, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.jobs[job]; h != nil && h.epoch == epoch {
		h.declined = true
	}
}

// noteDecline records that the runner declined a job.
func (c *connection) noteDecline(ctx context.Context, reason string) error {
	c.declineMu.Lock()
	defer c.declineMu.Unlock()
	after, counts, err := c.d.recordDecline(ctx, c.runner.Workspace, c.runner.ID, reason)
	if counts {
		c.setDeclines(after)
	}
	return err
}

// noteAccept records that the runner accepted a job, which ends its backoff.
func (c *connection) noteAccept(ctx context.Context, job events.ID, epoch int) error {
	c.declineMu.Lock()
	defer c.declineMu.Unlock()
	c.mu.Lock()
	before := c.declines
	c.declines, c.declinesVersion = declines{}, c.declinesVersion+1
	if h := c.jobs[job]; h != nil && h.epoch == epoch {
		h.accepted = true
	}
	c.mu.Unlock()
	if before.Count == 0 {
		return nil
	}
	c.farm.nudge()
	_, err := c.d.DB.Exec(ctx, `
		update runner_presence set declined = 0, decline_reason = '', rests_until = null where workspace_id = $1 and runner_id = $2`,
		c.runner.Workspace, c.runner.ID)
	if err != nil {
		return fmt.Errorf("note that runner %s took a job: %w", c.runner.ID, err)
	}
	return nil
}

// forgetUnanswered forgets jobs that the runner was told of and did not answer, once the sweep has
// taken them away, so that their slots are free.
func (d *Dispatcher) forgetUnanswered(ctx context.Context, c *connection) error {
	var list []heldJob
	c.mu.Lock()
	for job, h := range c.jobs {
		if !h.accepted && !h.declined { // a declined job is forgotten once that is recorded
			list = append(list, heldJob{job, h.epoch})
		}
	}
	c.mu.Unlock()
	verdicts, err := d.verdicts(ctx, c.runner, list)
	for k, v := range verdicts {
		if v.word == wire.StopJob {
			c.forget(k.job, k.epoch)
		}
	}
	return err
}

// setDeclines takes over what the database has of the runner's declines.
func (c *connection) setDeclines(d declines) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declines, c.declinesVersion = d, c.declinesVersion+1
}

// refreshDeclines is setDeclines for a value read when the version was as given. If declines has
// changed since, the value is out of date and dropped.
func (c *connection) refreshDeclines(d declines, version int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.declinesVersion == version {
		c.declines = d
	}
}

func (c *connection) currentDeclinesVersion() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.declinesVersion
}

// unanswered returns how many jobs the runner was given and has not accepted. The caller holds
// c.mu.
func (c *connection) unanswered() int {
	n := len(c.pending)
	for _, h := range c.jobs {
		if !h.accepted {
			n++
		}
	}
	return n
}
