package queue

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
	"svc/projections/farmviews"
)

// A Requirement is what a set of waiting jobs requires of a runner. Jobs with equal requirements
// share one.
type Requirement struct {
	Key      string
	Required events.JobRequires
}

// Requirements returns the next page of distinct requirements of waiting jobs. The query
// skips from one to the next through the index.
func (w *Waiting) Requirements(ctx context.Context) ([]Requirement, error) {
	rows, _ := w.DB.Query(ctx, `
		with recursive sets as (
			(select requirement, required from jobs where workspace_id = $1 and state = 'queued' and requirement > $3
				order by requirement limit 1)
			union all
			select n.requirement, n.required from sets s cross join lateral (
				select requirement, required from jobs where workspace_id = $1 and state = 'queued' and requirement > s.requirement
				order by requirement limit 1) n
		)
		select requirement, required from sets limit $2`, w.Workspace, requirementPage, w.cursor)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Requirement])
	return list, fault.Wrap(err, "look up requirements of waiting jobs of %s", w.Workspace)
}

// A candidate is a waiting job.
type candidate struct {
	Job         events.ID
	Turn        int64
	Requirement string
	Key         string
	Limit       int
	Excluded    []events.ID
	QueuedAt    time.Time
	NotBefore   time.Time
}

const candidateColumns = `job_id, turn, requirement, concurrency_key, concurrency, excluded, queued_at, not_before`

func (c candidate) compare(o candidate) int {
	return cmp.Or(cmp.Compare(c.Turn, o.Turn), bytes.Compare(c.Job[:], o.Job[:]))
}

const (
	setWindow   = 64  // jobs of each requirement set that are looked at in the order of their turns
	windowLimit = 256 // of all sets together
)

// windowSQL selects the first $3 jobs of each requirement set in $2, in all the first $4 of those. It
// has no other condition, so that it never reads more than it answers.
const windowSQL = `
	select c.* from unnest($2::text[]) as k (requirement) cross join lateral (
		select ` + candidateColumns + ` from jobs
		where workspace_id = $1 and state = 'queued' and requirement = k.requirement
		order by turn, job_id limit $3) c
	order by c.turn, c.job_id limit $4`

// candidates returns the next jobs for a group, in the order of their turns: at least as many as the
// group can take, if there are. Where the first jobs of the queue back off or wait for full concurrency
// keys, it goes through the keys.
func (w *Waiting) candidates(ctx context.Context, g *Group, slots map[string]concurrency) ([]candidate, error) {
	rows, _ := w.DB.Query(ctx, windowSQL, w.Workspace, g.keys, setWindow, windowLimit)
	window, err := pgx.CollectRows(rows, pgx.RowToStructByPos[candidate])
	if err != nil {
		return nil, fmt.Errorf("look up waiting jobs of %s: %w", w.Workspace, err)
	}
	seen, all := completePart(window)
	now := w.Now()
	list := slices.DeleteFunc(seen, func(c candidate) bool { return !g.mayTake(c, slots, now) })
	want := min(g.freeSlots(), matchPage)
	if all || len(list) >= want {
		return list, nil
	}
	more, err := w.candidatesByKey(ctx, g, slots, want)
	if err != nil {
		return nil, err
	}
	list = append(list, more...)
	slices.SortFunc(list, candidate.compare)
	return slices.CompactFunc(list, func(a, b candidate) bool { return a.Job == b.Job }), nil
}

// completePart returns the part of the answer to windowSQL before which no job is missing, and whether
// that is the whole queue. The next job of a set of which there are setWindow may come before all
// jobs that follow them.
func completePart(window []candidate) (part []candidate, all bool) {
	of := map[string]int{}
	for i, c := range window {
		if of[c.Requirement]++; of[c.Requirement] == setWindow {
			return window[:i+1], false
		}
	}
	return window, len(window) < windowLimit
}

// mayTake reports whether a runner of the group may be offered a job now.
func (g *Group) mayTake(c candidate, slots map[string]concurrency, now time.Time) bool {
	return !c.NotBefore.After(now) && (c.Key == "" || !slots[c.Key].Full(c.Limit)) &&
		slices.ContainsFunc(g.runners, func(o *Offer) bool { return !c.excludes(o.Runner, now) })
}

// excludes reports whether the runner has declined the job so recently that it is not offered it.
func (c candidate) excludes(runner events.ID, now time.Time) bool {
	return !c.QueuedAt.Before(excludedBefore(now)) && slices.Contains(c.Excluded, runner)
}

// excludedBefore returns the time before which a job must have been queued to be offered to runners
// that have declined it.
func excludedBefore(now time.Time) time.Time { return now.Add(-farmviews.JobExclusion) }
