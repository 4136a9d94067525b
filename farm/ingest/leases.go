package ingest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// Leases keeps job_leases in step with the log, in the transaction that appends: a leased job gets
// a lease, an accept renews it, a job that was taken away has its lease fenced, and a runner's
// report is stored together with its number. It is passed to the store among the inline views.
type Leases struct{}

// A LeaseKey identifies a lease.
type LeaseKey struct{ Workspace, Job events.ID }

// Compare orders keys as all processes lock leases.
func (k LeaseKey) Compare(other LeaseKey) int {
	if c := bytes.Compare(k.Workspace[:], other.Workspace[:]); c != 0 {
		return c
	}
	return bytes.Compare(k.Job[:], other.Job[:])
}

// A newLease is a lease that begins.
type newLease struct {
	LeaseKey
	epoch  int
	runner events.ID
	at     time.Time
}

// A leaseChange is what an event changes about a lease.
type leaseChange struct {
	LeaseKey
	epoch            int
	seq              int64
	renewed          *time.Time // when the runner accepted the job, nil if unchanged
	fenced, finished bool
	sealed           *time.Time // when its log was sealed, nil if it is not
}

// Load collects what the records change about leases. It reads nothing from the database.
func (Leases) Load(_ *pgx.Batch, records []events.Record) func(*pgx.Batch) error {
	var begin []newLease
	var changes []leaseChange
	for _, r := range records {
		key := LeaseKey{r.Workspace, r.Stream}
		if e, ok := r.Event.(events.JobLeased); ok {
			begin = append(begin, newLease{key, e.Epoch, e.Runner, r.At})
		}
		if c, ok := leaseChangeOf(r); ok {
			c.LeaseKey = key
			changes = append(changes, c)
		}
	}
	if begin == nil && changes == nil {
		return nil
	}
	return func(b *pgx.Batch) error {
		queueLeases(b, begin, changes)
		return nil
	}
}

// leaseChangeOf returns what an event changes about the lease of its job. ok is false if it changes
// nothing.
func leaseChangeOf(r events.Record) (c leaseChange, ok bool) {
	switch e := r.Event.(type) {
	case events.JobAccepted:
		return leaseChange{epoch: e.Epoch, renewed: &r.At}, true
	case events.JobStarted:
		return leaseChange{epoch: e.Epoch, seq: e.Seq}, true
	case events.JobCheckedOut:
		return leaseChange{epoch: e.Epoch, seq: e.Seq}, true
	case events.JobStepStarted:
		return leaseChange{epoch: e.Epoch, seq: e.Seq}, true
	case events.JobStepFinished:
		return leaseChange{epoch: e.Epoch, seq: e.Seq}, true
	case events.JobFinished:
		return leaseChange{epoch: e.Epoch, seq: e.Seq, fenced: true, finished: true}, true
	case events.JobRequeued:
		return leaseChange{epoch: e.Epoch, fenced: true}, true
	case events.JobLost:
		return leaseChange{epoch: e.Epoch, fenced: true}, true
	case events.JobCancelled:
		return leaseChange{epoch: e.Epoch, fenced: true}, e.Epoch > 0
	case events.JobLogSealed:
		return leaseChange{epoch: e.Epoch, fenced: true, sealed: &r.At}, true
	}
	return c, false
}

// queueLeases queues the statements. They are in the same order in every process, which avoids
// deadlocks.
func queueLeases(b *pgx.Batch, begin []newLease, changes []leaseChange) {
	slices.SortStableFunc(begin, func(a, b newLease) int { return a.Compare(b.LeaseKey) })
	slices.SortStableFunc(changes, func(a, b leaseChange) int { return a.Compare(b.LeaseKey) })
	for _, g := range begin {
		b.Queue(`
			insert into job_leases as l (workspace_id, job_id, epoch, runner_id, renewed_at) values ($1, $2, $3, $4, $5)
			on conflict (workspace_id, job_id) do update set epoch = excluded.epoch, runner_id = excluded.runner_id,
				renewed_at = excluded.renewed_at, fenced = false, finished = false, last_seq = 0, log_bytes = 0, log_chunks = 0,
				log_lines = 0, lines_to = 0, truncated = false, sealed_at = null
			where l.epoch < excluded.epoch`, g.Workspace, g.Job, g.epoch, g.runner, g.at)
	}
	for _, c := range changes {
		b.Queue(`
			update job_leases set last_seq = greatest(last_seq, $4), fenced = fenced or $5, finished = finished or $6,
				sealed_at = coalesce(sealed_at, $7), renewed_at = greatest(renewed_at, $8)
			where workspace_id = $1 and job_id = $2 and epoch = $3`,
			c.Workspace, c.Job, c.epoch, c.seq, c.fenced, c.finished, c.sealed, c.renewed)
	}
}

// A lease has the columns that decide what happens to a message. The zero lease stands for a job
// that does not exist.
type lease struct {
	LeaseKey
	epoch            int
	runner           events.ID
	submitter        events.ID // zero if that is the service
	fenced, finished bool
	seq, bytes       int64
	truncated        bool
	line             int64 // line number of the next byte, 0 if it is not known
}

// A disposition is what to do with messages of a job.
type disposition int

const (
	notHolder     disposition = iota // from another runner, of an older epoch, or of a fenced lease
	alreadyStored                    // stored already
	afterGap                         // a number before them is missing
	inOrder                          // to be stored
)

// classify returns what to do with messages of a job with the numbers first to last.
func (l lease) classify(it *Item, first, last int64) disposition {
	switch {
	case l.epoch == 0 || l.epoch != it.Epoch || l.runner != it.Runner:
		return notHolder
	case last <= l.seq:
		return alreadyStored
	case l.fenced:
		return notHolder
	case first > l.seq+1:
		return afterGap
	}
	return inOrder
}

const leaseColumns = `workspace_id, job_id, epoch, runner_id, fenced, finished, last_seq, log_bytes, truncated,
	case when lines_to = log_bytes then log_lines + 1 else 0 end,
	coalesce((
		select submitted_by ->> 'id' from jobs j where j.workspace_id = l.workspace_id and j.job_id = l.job_id
	)::uuid, '00000000-0000-0000-0000-000000000000')`

func scanLease(row pgx.CollectableRow) (l lease, err error) {
	err = row.Scan(&l.Workspace, &l.Job, &l.epoch, &l.runner, &l.fenced, &l.finished, &l.seq, &l.bytes, &l.truncated, &l.line, &l.submitter)
	return l, err
}

// sortedKeys returns the jobs of items, each once, in the order in which all processes lock leases.
func sortedKeys(list []*Item) (workspaces, jobs []events.ID) {
	var keys []LeaseKey
	for _, it := range list {
		keys = append(keys, LeaseKey{it.Meta.Workspace, it.Job})
	}
	slices.SortFunc(keys, LeaseKey.Compare)
	for _, k := range slices.Compact(keys) {
		workspaces, jobs = append(workspaces, k.Workspace), append(jobs, k.Job)
	}
	return workspaces, jobs
}

// readLeases reads the leases of the items' jobs, without locking them.
func (g *Ingest) readLeases(ctx context.Context, list []*Item) (map[LeaseKey]lease, error) {
	workspaces, jobs := sortedKeys(list)
	rows, _ := g.DB.Query(ctx, `
		select l.* from unnest($1::uuid[], $2::uuid[]) as k (workspace_id, job_id)
		cross join lateral (select `+leaseColumns+` from job_leases l where l.workspace_id = k.workspace_id and l.job_id = k.job_id offset 0) l`,
		workspaces, jobs)
	return collectLeases(rows)
}

func collectLeases(rows pgx.Rows) (map[LeaseKey]lease, error) {
	list, err := pgx.CollectRows(rows, scanLease)
	if err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	by := make(map[LeaseKey]lease, len(list))
	for _, l := range list {
		by[l.LeaseKey] = l
	}
	return by, nil
}
