package farmviews

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
)

// Why a job waits. "Matching" runners are connected and meet its requirement.
const (
	WaitsForRunner      = "no_matching_runner" // no runner matches
	WaitsForDrained     = "runner_draining"    // the matching runners are draining
	WaitsForRest        = "runner_resting"     // the matching runners rest, after having declined several jobs
	WaitsForSlot        = "all_busy"           // the matching runners have no free slot, or have just declined this job
	WaitsForConcurrency = "concurrency_limit"  // the limit of its concurrency key is reached
	WaitsForTime        = "not_before"         // it backs off after an attempt
)

// JobWaits knows the connected runners, and says why jobs wait.
type JobWaits struct {
	runners []waitRunner
	keyUse  map[string]events.ConcurrencyUse // use of the jobs' concurrency keys
	at      time.Time
}

type waitRunner struct {
	ID        events.ID
	Labels    []string
	Exclusive []string
	Draining  bool
	Free      bool
	Resting   bool
}

// maxRunnersConsidered bounds the runners of a workspace that are considered.
const maxRunnersConsidered = 2000

// Waits reads the runners, and the use of the concurrency keys of the queued jobs of list.
func (v Jobs) Waits(ctx context.Context, workspace events.ID, list []Job, now time.Time) (w JobWaits, err error) {
	w = JobWaits{keyUse: map[string]events.ConcurrencyUse{}, at: now}
	keys, queued := []string{}, false
	for _, j := range list {
		queued = queued || j.State == events.JobStateQueued
		if j.State == events.JobStateQueued && j.Key != "" {
			keys = append(keys, j.Key)
		}
	}
	if !queued {
		return w, nil
	}
	b := &pgx.Batch{}
	b.Queue(`
		select r.runner_id, r.labels, r.exclusive_labels, r.draining or coalesce(p.draining, false),
			coalesce(r.jobs_left, 1) > 0 and r.capacity > (
			select count(*) from jobs j where j.workspace_id = $1 and j.runner_id = r.runner_id and j.state in ('leased', 'running', 'cancelling')),
			coalesce(p.rests_until > $3, false)
		from runners r left join lateral (
			select p.draining, p.rests_until from runner_presence p
			where p.workspace_id = $1 and p.runner_id = r.runner_id offset 0) p on true
		where r.workspace_id = $1 and r.state in ('online', 'draining') order by r.runner_id limit $2`,
		workspace, maxRunnersConsidered, now).Query(func(rows pgx.Rows) (err error) {
		w.runners, err = pgx.CollectRows(rows, pgx.RowToStructByPos[waitRunner])
		return err
	})
	if len(keys) > 0 {
		b.Queue(`
			select concurrency_key, count(*), min(concurrency) from jobs
			where workspace_id = $1 and slot > 0 and concurrency_key = any($2) group by concurrency_key`,
			workspace, keys).Query(func(rows pgx.Rows) error {
			var key string
			var u events.ConcurrencyUse
			_, err := pgx.ForEachRow(rows, []any{&key, &u.Held, &u.LowestLimit}, func() error {
				w.keyUse[key] = u
				return nil
			})
			return err
		})
	}
	err = v.DB.SendBatch(ctx, b).Close()
	return w, fault.Wrap(err, "read runners that jobs of %s wait for", workspace)
}

// Reason returns why a job waits. It is "" if the job is not queued or is about to be leased.
func (w JobWaits) Reason(j Job) string {
	if j.State != events.JobStateQueued {
		return ""
	}
	matching, taking, awake, free := false, false, false, false
	for _, r := range w.runners {
		if !j.Required.Met(r.Labels, r.Exclusive) {
			continue
		}
		matching = true
		if r.Draining {
			continue
		}
		taking = true
		if r.Resting {
			continue
		}
		awake = true
		declined := slices.Contains(j.Excluded, r.ID) && w.at.Before(j.QueuedAt.Add(JobExclusion))
		free = free || r.Free && !declined
	}
	switch {
	case w.at.Before(j.NotBefore):
		return WaitsForTime
	case !matching:
		return WaitsForRunner
	case !taking:
		return WaitsForDrained
	case !awake:
		return WaitsForRest
	case j.Key != "" && w.keyUse[j.Key].Full(j.Concurrency):
		return WaitsForConcurrency
	case !free:
		return WaitsForSlot
	}
	return ""
}

// Missing returns the labels that the connected runner which comes closest to a job's requirement does
// not have, all that the job requires if no runner is connected. There are none unless the reason is
// [WaitsForRunner], or if the runners are reserved for other jobs.
func (w JobWaits) Missing(j Job) []string {
	if w.Reason(j) != WaitsForRunner {
		return []string{}
	}
	if len(w.runners) == 0 {
		return missingLabels(j.Required, nil)
	}
	var least []string
	for i, r := range w.runners {
		if m := missingLabels(j.Required, r.Labels); i == 0 || len(m) < len(least) {
			least = m
		}
	}
	return least
}

// missingLabels returns what labels lack of a requirement: of several sets of which one is enough, the
// one that lacks least.
func missingLabels(r events.JobRequires, labels []string) []string {
	lacks := func(set []string) []string {
		return slices.DeleteFunc(slices.Clone(set), func(l string) bool { return slices.Contains(labels, l) })
	}
	missing := append([]string{}, lacks(r.Labels)...)
	if len(r.AnyOf) == 0 {
		return missing
	}
	least := lacks(r.AnyOf[0])
	for _, set := range r.AnyOf[1:] {
		if m := lacks(set); len(m) < len(least) {
			least = m
		}
	}
	return append(missing, least...)
}

// JobExclusion is how long a runner that has declined a job is not offered it again, so that
// another one can take it. After that the runner is offered it again: there may be no other.
const JobExclusion = 30 * time.Second
