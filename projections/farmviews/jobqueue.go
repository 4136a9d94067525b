package farmviews

import (
	"context"

	"svc/events"
	"svc/fault"
)

// A JobQueue is what a decision about a new job has to know of the workspace's queue.
type JobQueue struct {
	Length       int   // number of queued jobs
	LastTurn     int64 // last turn of the jobs with the same fair key; 0 if there are none
	Requirements int   // see [MaxRequirements]; 0 if the requirement is in the queue already
}

// MaxRequirements is how many distinct requirements the queued jobs of one person or service
// account may have, because dispatch goes through each. [JobQueue].Requirements is the submitter's
// number including the new job's, counted up to one more than this.
const MaxRequirements = 64

// Queue returns what a new job of submitter by needs to know, given its fair key and requirement.
func (v Jobs) Queue(ctx context.Context, workspace, by events.ID, fairKey, requirement string) (q JobQueue, err error) {
	var known bool
	err = v.DB.QueryRow(ctx, `
		select coalesce((select queued from job_counts where workspace_id = $1), 0),
			coalesce((select turn from jobs where workspace_id = $1 and state = 'queued' and fair_key = $2 order by turn desc limit 1), 0),
			exists (select from jobs where workspace_id = $1 and state = 'queued' and requirement = $3)`,
		workspace, fairKey, requirement).Scan(&q.Length, &q.LastTurn, &known)
	if err == nil && !known {
		// A recursive query jumps from each requirement to the next one: one index lookup per
		// distinct value.
		err = v.DB.QueryRow(ctx, `
			with recursive each (requirement, n) as (
				(select requirement, 1 from jobs where workspace_id = $1 and state = 'queued' and submitted_by ->> 'id' = $2
					order by requirement limit 1)
				union all
				select (select requirement from jobs where workspace_id = $1 and state = 'queued' and submitted_by ->> 'id' = $2
					and requirement > each.requirement order by requirement limit 1), n + 1
				from each where each.requirement is not null and n < $3)
			select count(requirement) from each`, workspace, by.String(), MaxRequirements).Scan(&q.Requirements)
		q.Requirements++
	}
	return q, fault.Wrap(err, "read queue of %s", workspace)
}

// QueueFull reports whether a queue of the given length, which may have most jobs, has no room for
// another job of by. Nobody can fill it alone: whoever has three times as many queued jobs as there
// is room left must wait.
func (v Jobs) QueueFull(ctx context.Context, workspace, by events.ID, length, most int) (bool, error) {
	share := 3 * (most - length)
	if share <= 0 || length < share {
		return share <= 0, nil
	}
	var own int
	err := v.DB.QueryRow(ctx, `
		select count(*) from (
			select from jobs where workspace_id = $1 and state = 'queued' and submitted_by ->> 'id' = $2 limit $3) own`,
		workspace, by.String(), share).Scan(&own)
	return own >= share, fault.Wrap(err, "read jobs that %s has in the queue of %s", by, workspace)
}

// KeyUse returns how much of a concurrency key is in use.
func (v Jobs) KeyUse(ctx context.Context, workspace events.ID, key string) (u events.ConcurrencyUse, err error) {
	err = v.DB.QueryRow(ctx, `
		select count(*), coalesce(min(concurrency), 0) from jobs where workspace_id = $1 and slot > 0 and concurrency_key = $2`,
		workspace, key).Scan(&u.Held, &u.LowestLimit)
	return u, fault.Wrap(err, "read jobs of %s with a concurrency key", workspace)
}
