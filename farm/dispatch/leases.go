package dispatch

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// Leases keeps the leases of jobs in step with the log, in the transaction that appends:
// who was given a job has its lease, one whose job was taken away has it no more, and what
// a runner said is stored together with its number. It goes among the views of a store.
type Leases struct{}

// A leaseKey names a lease.
type leaseKey struct{ workspace, job events.ID }

func (k leaseKey) compare(other leaseKey) int {
	if c := bytes.Compare(k.workspace[:], other.workspace[:]); c != 0 {
		return c
	}
	return bytes.Compare(k.job[:], other.job[:])
}

// A given is a lease that begins.
type given struct {
	leaseKey
	epoch  int
	runner events.ID
	at     time.Time
}

// A change is what becomes of a lease.
type change struct {
	leaseKey
	epoch            int
	seq              int64
	fenced, finished bool
	sum              []byte     // JSON, nil if nothing is said of it
	sealed           *time.Time // nil if it is not
}

// Load queues nothing to read.
func (Leases) Load(_ *pgx.Batch, records []events.Record) func(*pgx.Batch) error {
	var begin []given
	var changes []change
	for _, r := range records {
		key := leaseKey{r.Workspace, r.Stream}
		if e, ok := r.Event.(events.JobLeased); ok {
			begin = append(begin, given{key, e.Epoch, e.Runner, r.At})
		}
		if c, ok := changeOf(r); ok {
			c.leaseKey = key
			changes = append(changes, c)
		}
	}
	if begin == nil && changes == nil {
		return nil
	}
	return func(b *pgx.Batch) error {
		return queueLeases(b, begin, changes)
	}
}

// changeOf says what an event means to the lease of its job. ok is false if it means nothing.
func changeOf(r events.Record) (c change, ok bool) {
	switch e := r.Event.(type) {
	case events.JobStarted:
		return change{epoch: e.Epoch, seq: e.Seq}, true
	case events.JobStepStarted:
		return change{epoch: e.Epoch, seq: e.Seq}, true
	case events.JobStepFinished:
		return change{epoch: e.Epoch, seq: e.Seq}, true
	case events.JobFinished:
		sum, err := json.Marshal(e.Log)
		return change{epoch: e.Epoch, seq: e.Seq, fenced: true, finished: true, sum: sum}, err == nil
	case events.JobRequeued:
		return change{epoch: e.Epoch, fenced: true}, true
	case events.JobLost:
		return change{epoch: e.Epoch, fenced: true}, true
	case events.JobCancelled:
		return change{epoch: e.Epoch, fenced: true}, e.Epoch > 0
	case events.JobLogSealed:
		return change{epoch: e.Epoch, fenced: true, sealed: &r.At}, true
	}
	return c, false
}

// queueLeases writes leases in one order for all processes, against deadlocks.
func queueLeases(b *pgx.Batch, begin []given, changes []change) error {
	slices.SortStableFunc(begin, func(a, b given) int { return a.compare(b.leaseKey) })
	slices.SortStableFunc(changes, func(a, b change) int { return a.compare(b.leaseKey) })
	for _, g := range begin {
		b.Queue(`
			insert into job_leases as l (workspace_id, job_id, epoch, runner_id, renewed_at) values ($1, $2, $3, $4, $5)
			on conflict (workspace_id, job_id) do update set epoch = excluded.epoch, runner_id = excluded.runner_id,
				renewed_at = excluded.renewed_at, fenced = false, finished = false, last_seq = 0, log_bytes = 0, log_chunks = 0,
				log_lines = 0, lines_to = 0, truncated = false, log_sum = null, sealed_at = null
			where l.epoch < excluded.epoch`, g.workspace, g.job, g.epoch, g.runner, g.at)
	}
	for _, c := range changes {
		b.Queue(`
			update job_leases set last_seq = greatest(last_seq, $4), fenced = fenced or $5, finished = finished or $6,
				log_sum = coalesce($7, log_sum), sealed_at = coalesce(sealed_at, $8)
			where workspace_id = $1 and job_id = $2 and epoch = $3`, c.workspace, c.job, c.epoch, c.seq, c.fenced, c.finished, c.sum, c.sealed)
	}
	return nil
}
