package projections

import (
	"context"
	"fmt"

	"svc/events"
)

// A JobQueue is what has to be known of a workspace's queue to find the place of another job.
type JobQueue struct {
	Length       int   // jobs that wait
	LastTurn     int64 // of those with the fair key, 0 if there are none
	Requirements int   // see [MostRequirements]; 0 if the new job asks for what another one does
}

// MostRequirements is how many different requirements the queued jobs of a person or service
// account may have, for who looks for jobs looks at each. [JobQueue] has those of whoever
// submits a job that asks for another one, with that, and counts up to one more.
const MostRequirements = 64

// Queue looks at the queue for a job with a fair key and a requirement that somebody submits.
func (v Jobs) Queue(ctx context.Context, workspace, by events.ID, fairKey, requirement string) (q JobQueue, err error) {
	var known bool
	err = v.DB.QueryRow(ctx, `
		select coalesce((select queued from job_counts where workspace_id = $1), 0),
			coalesce((select turn from jobs where workspace_id = $1 and state = 'queued' and fair_key = $2 order by turn desc limit 1), 0),
			exists (select from jobs where workspace_id = $1 and state = 'queued' and requirement = $3)`,
		workspace, fairKey, requirement).Scan(&q.Length, &q.LastTurn, &known)
	if err == nil && !known {
		// From each requirement to the next one: the index is read as often as there are some.
		err = v.DB.QueryRow(ctx, `
			with recursive each (requirement, n) as (
				(select requirement, 1 from jobs where workspace_id = $1 and state = 'queued' and submitted_by ->> 'id' = $2
					order by requirement limit 1)
				union all
				select (select requirement from jobs where workspace_id = $1 and state = 'queued' and submitted_by ->> 'id' = $2
					and requirement > each.requirement order by requirement limit 1), n + 1
				from each where each.requirement is not null and n < $3)
			select count(requirement) from each`, workspace, by.String(), MostRequirements).Scan(&q.Requirements)
		q.Requirements++
	}
	if err != nil {
		return q, fmt.Errorf("queue of %s: %w", workspace, err)
	}
	return q, nil
}

// Full reports whether a queue that has places for most jobs has none for another one of
// somebody. Nobody fills it alone: whoever has three times as many jobs there as there are
// places left has to wait, and who comes later still finds one.
func (v Jobs) Full(ctx context.Context, workspace, by events.ID, length, most int) (bool, error) {
	share := 3 * (most - length)
	if share <= 0 || length < share {
		return share <= 0, nil
	}
	var own int
	err := v.DB.QueryRow(ctx, `
		select count(*) from (
			select from jobs where workspace_id = $1 and state = 'queued' and submitted_by ->> 'id' = $2 limit $3) own`,
		workspace, by.String(), share).Scan(&own)
	if err != nil {
		return false, fmt.Errorf("jobs that %s has in the queue of %s: %w", by, workspace, err)
	}
	return own >= share, nil
}

// KeyUse returns what is in use of a concurrency key.
func (v Jobs) KeyUse(ctx context.Context, workspace events.ID, key string) (u events.ConcurrencyUse, err error) {
	err = v.DB.QueryRow(ctx, `
		select count(*), coalesce(min(concurrency), 0) from jobs where workspace_id = $1 and slot > 0 and concurrency_key = $2`,
		workspace, key).Scan(&u.Held, &u.LowestLimit)
	if err != nil {
		return u, fmt.Errorf("jobs of %s with a concurrency key: %w", workspace, err)
	}
	return u, nil
}
