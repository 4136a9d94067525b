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

// A runner that gives back what it is given rests, and longer each time, until it takes a job
// again: each one that is given to it and comes back is three events in the log. After a rest it
// is given one job, and no other before it has taken that.
const (
	declinesFree = 3 // in a row
	restFirst    = 10 * time.Second
	restMost     = 10 * time.Minute
)

// A declines is how often in a row a runner gave jobs back, and until when it rests for that.
type declines struct {
	Count int
	Until *time.Time
}

func (d declines) many() bool { return d.Count >= declinesFree }

func (d declines) rests(now time.Time) bool { return d.Until != nil && now.Before(*d.Until) }

// declined notes that a runner gave a job back. What comes back while it rests was given to it
// before, and does not count.
func (d *Dispatcher) declined(ctx context.Context, workspace, runner events.ID, reason string) (after declines, counts bool, err error) {
	rows, _ := d.DB.Query(ctx, `
		update runner_presence set declined = declined + 1, decline_reason = $3, rests_until = case when declined + 1 >= $5
			then $4::timestamptz + least($6::float8 * power(2, least(declined + 1 - $5, 20)), $7) * interval '1 second' end
		where workspace_id = $1 and runner_id = $2 and coalesce(rests_until, '-infinity') <= $4
		returning declined, rests_until`,
		workspace, runner, reason, d.Now(), declinesFree, restFirst.Seconds(), restMost.Seconds())
	after, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[declines])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return after, false, nil
	case err != nil:
		return after, false, fmt.Errorf("note that runner %s declined a job: %w", runner, err)
	}
	return after, true, nil
}

// givesBack keeps the place of a job that the runner declines until that is noted: it would be
// given another one before.
func (c *connection) givesBack(job events.ID, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.jobs[job]; h != nil && h.epoch == epoch {
		h.declined = true
	}
}

// gaveBack notes that the runner gave a job back.
func (c *connection) gaveBack(ctx context.Context, reason string) error {
	c.noting.Lock()
	defer c.noting.Unlock()
	after, counts, err := c.d.declined(ctx, c.runner.Workspace, c.runner.ID, reason)
	if counts {
		c.note(after)
	}
	return err
}

// took notes that the runner has taken a job.
func (c *connection) took(ctx context.Context, job events.ID, epoch int) error {
	c.noting.Lock()
	defer c.noting.Unlock()
	c.mu.Lock()
	before := c.declines
	c.declines, c.noted = declines{}, c.noted+1
	if h := c.jobs[job]; h != nil && h.epoch == epoch {
		h.taken = true
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

// missed forgets jobs that the runner was told of and took no notice of, once others have taken
// them away from it: their places are free.
func (d *Dispatcher) missed(ctx context.Context, c *connection) error {
	var list []claimed
	c.mu.Lock()
	for job, h := range c.jobs {
		if !h.taken && !h.declined { // what is declined is forgotten once that is noted
			list = append(list, claimed{job, h.epoch})
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

// note takes in what is known of the jobs that the runner gave back.
func (c *connection) note(d declines) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declines, c.noted = d, c.noted+1
}

// noteRead is note for what was looked up when so much had been noted: what was noted
// since is newer.
func (c *connection) noteRead(d declines, noted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noted == noted {
		c.declines = d
	}
}

func (c *connection) notedBefore() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noted
}

// unanswered is how many jobs the runner was given and has not taken. The caller has the lock.
func (c *connection) unanswered() int {
	n := len(c.untold)
	for _, h := range c.jobs {
		if !h.taken {
			n++
		}
	}
	return n
}
