package queue

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
)

// A concurrency is the use of one concurrency key, and the slots that are taken.
type concurrency struct {
	events.ConcurrencyUse
	taken []int
}

// freeSlot returns a free slot for a job with the given limit, 0 if there is none.
func (c concurrency) freeSlot(limit int) int {
	if c.Full(limit) {
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
	if c.Held > 0 {
		limit = min(limit, c.LowestLimit)
	}
	return concurrency{events.ConcurrencyUse{Held: c.Held + 1, LowestLimit: limit}, append(c.taken, slot)}
}

// usedSlots returns the use of each concurrency key.
func (w *Waiting) usedSlots(ctx context.Context) (map[string]concurrency, error) {
	rows, _ := w.DB.Query(ctx, `select concurrency_key, slot, concurrency from jobs where workspace_id = $1 and slot > 0`, w.Workspace)
	held := map[string]concurrency{}
	var key string
	var slot, limit int
	_, err := pgx.ForEachRow(rows, []any{&key, &slot, &limit}, func() error { held[key] = held[key].withSlot(slot, limit); return nil })
	return held, fault.Wrap(err, "concurrency keys of %s", w.Workspace)
}

// A queueKey identifies the waiting jobs of one requirement set with the same concurrency key and
// limit: either each of them has a free slot or none has.
type queueKey struct {
	Requirement string
	Key         string
	Limit       int
}

const queueKeyPage = 256 // keys per query

// candidatesByKey returns the first jobs of each concurrency key that has a free slot, until there
// are want of them. It reads nothing but one entry of an index for each key that is full, however many
// jobs wait for it. With fewer than queueKeyPage keys all are looked at in each call, so that no
// candidate is missed whose turn is earlier than that of one returned. Of more keys it goes through one
// page after the other; the limit of the queue bounds them.
func (w *Waiting) candidatesByKey(ctx context.Context, g *Group, slots map[string]concurrency, want int) (list []candidate, err error) {
	for after := (queueKey{}); ; {
		page, err := w.queueKeys(ctx, g.keys, after)
		if err != nil {
			return nil, err
		}
		heads, err := w.firstOf(ctx, g, page, slots)
		if err != nil {
			return nil, err
		}
		list = append(list, heads...)
		if len(list) >= want || len(page) < queueKeyPage {
			return list, nil
		}
		after = page[queueKeyPage-1]
	}
}

// queueKeysSQL selects the next $6 queue keys after the one whose requirement set has the number $3 in
// $2, whose key is $4 and whose limit is $5. It skips from one to the next through the index.
const queueKeysSQL = `
	with recursive each (n, concurrency_key, concurrency) as (
		select $3::int, $4::text, $5::int
		union all
		select next.* from each e cross join lateral (
			(select e.n, j.concurrency_key, j.concurrency from jobs j
				where j.workspace_id = $1 and j.state = 'queued' and j.requirement = ($2::text[])[e.n]
				and (j.concurrency_key, j.concurrency) > (e.concurrency_key, e.concurrency)
				order by j.concurrency_key, j.concurrency limit 1)
			union all
			(select s.n, j.concurrency_key, j.concurrency from generate_series(e.n + 1, cardinality($2::text[])) s (n) cross join lateral (
				select concurrency_key, concurrency from jobs
				where workspace_id = $1 and state = 'queued' and requirement = ($2::text[])[s.n]
				order by concurrency_key, concurrency limit 1) j
				limit 1)
			limit 1) next
	)
	select n, concurrency_key, concurrency from each offset 1 limit $6`

// queueKeys returns the next page of queue keys of requirement sets after one; the zero key stands before all.
func (w *Waiting) queueKeys(ctx context.Context, sets []string, after queueKey) (list []queueKey, err error) {
	n := slices.Index(sets, after.Requirement) + 1 // SQL counts from 1
	if n == 0 {
		n, after = 1, queueKey{Limit: -1}
	}
	rows, _ := w.DB.Query(ctx, queueKeysSQL, w.Workspace, sets, n, after.Key, after.Limit, queueKeyPage)
	var k queueKey
	_, err = pgx.ForEachRow(rows, []any{&n, &k.Key, &k.Limit}, func() error {
		k.Requirement = sets[n-1]
		list = append(list, k)
		return nil
	})
	return list, fault.Wrap(err, "concurrency keys that jobs of %s wait for", w.Workspace)
}

// firstOfSQL selects the first jobs of each queue key in $2, $3 and $4, at most as many as $5 says, at
// time $6. It skips jobs queued after $7 that every runner in $8 has declined. Key and limit are
// compared as a range so that no index but jobs_keys has the order.
const firstOfSQL = `
	select c.* from unnest($2::text[], $3::text[], $4::int[], $5::int[]) as k (requirement, concurrency_key, concurrency, most)
	cross join lateral (
		select ` + candidateColumns + ` from jobs j
		where j.workspace_id = $1 and j.state = 'queued' and j.requirement = k.requirement
		and (j.concurrency_key, j.concurrency) >= (k.concurrency_key, k.concurrency)
		and (j.concurrency_key, j.concurrency) <= (k.concurrency_key, k.concurrency)
		and j.not_before <= $6 and (j.queued_at < $7 or not j.excluded @> $8::uuid[])
		order by j.concurrency_key, j.concurrency, j.turn, j.job_id limit k.most) c
	order by c.turn, c.job_id limit $9`

// firstOf returns the first jobs of queue keys, for each as many as it has free slots.
func (w *Waiting) firstOf(ctx context.Context, g *Group, page []queueKey, slots map[string]concurrency) ([]candidate, error) {
	var sets, keys []string
	var limits, most []int
	for _, k := range page {
		n := matchPage
		if k.Key != "" {
			n = min(n, slots[k.Key].Free(k.Limit))
		}
		if n > 0 {
			sets, keys, limits, most = append(sets, k.Requirement), append(keys, k.Key), append(limits, k.Limit), append(most, n)
		}
	}
	if len(sets) == 0 {
		return nil, nil
	}
	now := w.Now()
	rows, _ := w.DB.Query(ctx, firstOfSQL,
		w.Workspace, sets, keys, limits, most, now, excludedBefore(now), g.runnerIDs(), matchPage)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[candidate])
	return list, fault.Wrap(err, "look up waiting jobs of %s", w.Workspace)
}
