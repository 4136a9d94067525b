package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// A requirement is what a set of waiting jobs requires of a runner. Jobs with equal requirements
// share one.
type requirement struct {
	Key      string
	Required events.JobRequires
}

// waitingRequirements returns the next page of distinct requirements of waiting jobs. The query
// skips from one to the next through the index.
func (f *farm) waitingRequirements(ctx context.Context) ([]requirement, error) {
	rows, _ := f.d.DB.Query(ctx, `
		with recursive sets as (
			(select requirement, required from jobs where workspace_id = $1 and state = 'queued' and requirement > $3
				order by requirement limit 1)
			union all
			select n.requirement, n.required from sets s cross join lateral (
				select requirement, required from jobs where workspace_id = $1 and state = 'queued' and requirement > s.requirement
				order by requirement limit 1) n
		)
		select requirement, required from sets limit $2`, f.workspace, requirementPage, f.requirementCursor)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[requirement])
	if err != nil {
		return nil, fmt.Errorf("what jobs of %s wait for: %w", f.workspace, err)
	}
	return list, nil
}

// A candidate is a waiting job.
type candidate struct {
	Job      events.ID
	Turn     int64
	Key      string
	Limit    int
	Excluded []events.ID
	QueuedAt time.Time
}

// A concurrency is the use of one concurrency key: the taken slots, and the smallest limit among
// the jobs that hold them.
type concurrency struct {
	taken []int
	least int
}

// freeSlot returns a free slot for a job with the given limit, 0 if there is none.
func (c concurrency) freeSlot(limit int) int {
	if (events.ConcurrencyUse{Held: len(c.taken), LowestLimit: c.least}).Full(limit) {
		return 0
	}
	for slot := 1; slot <= limit; slot++ {
		if !slices.Contains(c.taken, slot) {
			return slot
		}
	}
	return 0
}

// withSlot returns c with another job in it.
func (c concurrency) withSlot(slot, limit int) concurrency {
	if len(c.taken) == 0 {
		c.least = limit
	}
	return concurrency{append(c.taken, slot), min(c.least, limit)}
}

// usedSlots returns the use of each concurrency key.
func (f *farm) usedSlots(ctx context.Context) (map[string]concurrency, error) {
	rows, _ := f.d.DB.Query(ctx, `select concurrency_key, slot, concurrency from jobs where workspace_id = $1 and slot > 0`, f.workspace)
	held := map[string]concurrency{}
	var key string
	var slot, limit int
	_, err := pgx.ForEachRow(rows, []any{&key, &slot, &limit}, func() error { held[key] = held[key].withSlot(slot, limit); return nil })
	if err != nil {
		return nil, fmt.Errorf("concurrency keys of %s: %w", f.workspace, err)
	}
	return held, nil
}

// candidateSQL selects the next jobs of each requirement set in $2, at time $3. It skips jobs whose
// concurrency key is full ($5 are the keys, $6 how many jobs hold each, $9 the smallest limit among
// those), and jobs queued after $8 that every runner in $7 has declined.
const candidateSQL = `
	select c.* from unnest($2::text[]) as k (requirement) cross join lateral (
		select j.job_id, j.turn, j.concurrency_key, j.concurrency, j.excluded, j.queued_at from jobs j
		left join unnest($5::text[], $6::int[], $9::int[]) as s (key, taken, least) on s.key = j.concurrency_key
		where j.workspace_id = $1 and j.state = 'queued' and j.requirement = k.requirement and j.not_before <= $3
		and (j.concurrency_key = '' or coalesce(s.taken, 0) < least(j.concurrency, s.least))
		and (j.queued_at < $8 or not j.excluded @> $7::uuid[])
		order by j.turn, j.job_id limit $4) c
	order by c.turn, c.job_id limit $4`

func (f *farm) candidates(ctx context.Context, g *group, slots map[string]concurrency) ([]candidate, error) {
	var names []string
	var taken, least []int
	for key, c := range slots {
		names, taken, least = append(names, key), append(taken, len(c.taken)), append(least, c.least)
	}
	runners := []events.ID{}
	for _, o := range g.runners {
		runners = append(runners, o.c.runner.ID)
	}
	now := f.d.Now()
	rows, _ := f.d.DB.Query(ctx, candidateSQL,
		f.workspace, g.keys, now, claimPage, names, taken, runners, now.Add(-excludedForMs*time.Millisecond), least)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[candidate])
	if err != nil {
		return nil, fmt.Errorf("jobs of %s that wait: %w", f.workspace, err)
	}
	return list, nil
}
