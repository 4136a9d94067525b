package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/farm/wire"
)

// A lease has the columns that decide what happens to a message. The zero lease stands for a job
// that does not exist.
type lease struct {
	leaseKey
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
func (l lease) classify(it *item, first, last int64) disposition {
	switch {
	case l.epoch == 0 || l.epoch != it.epoch || l.runner != it.c.runner.ID:
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
	err = row.Scan(&l.workspace, &l.job, &l.epoch, &l.runner, &l.fenced, &l.finished, &l.seq, &l.bytes, &l.truncated, &l.line, &l.submitter)
	return l, err
}

// sortedKeys returns the jobs of items, each once, in the order in which all processes lock leases.
func sortedKeys(list []*item) (workspaces, jobs []events.ID) {
	var keys []leaseKey
	for _, it := range list {
		keys = append(keys, leaseKey{it.c.runner.Workspace, it.job})
	}
	slices.SortFunc(keys, leaseKey.compare)
	for _, k := range slices.Compact(keys) {
		workspaces, jobs = append(workspaces, k.workspace), append(jobs, k.job)
	}
	return workspaces, jobs
}

// readLeases reads the leases of the items' jobs, without locking them.
func (g *ingest) readLeases(ctx context.Context, list []*item) (map[leaseKey]lease, error) {
	workspaces, jobs := sortedKeys(list)
	rows, _ := g.d.DB.Query(ctx, `
		select l.* from unnest($1::uuid[], $2::uuid[]) as k (workspace_id, job_id)
		cross join lateral (select `+leaseColumns+` from job_leases l where l.workspace_id = k.workspace_id and l.job_id = k.job_id offset 0) l`,
		workspaces, jobs)
	return collectLeases(rows)
}

func collectLeases(rows pgx.Rows) (map[leaseKey]lease, error) {
	list, err := pgx.CollectRows(rows, scanLease)
	if err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	by := make(map[leaseKey]lease, len(list))
	for _, l := range list {
		by[l.leaseKey] = l
	}
	return by, nil
}

// A pieceRun is consecutive log pieces of one job, and what becomes of them.
type pieceRun struct {
	*queue
	lease
	disposition disposition
	rows        []*item // pieces to store
	seq, end    int64   // last number and log size after the run
	line        int64   // line number at the end, 0 if it is not known
	truncated   bool
	refusal     string // why the run is refused, "" if it is not
}

// storePieces stores log pieces of several jobs in one transaction, and acknowledges them.
func (g *ingest) storePieces(ctx context.Context, list []*item) {
	if len(list) == 0 {
		return
	}
	runs, err := g.writePieces(ctx, list)
	if err != nil {
		for _, it := range list {
			g.closeForRetry(it, err)
		}
		return
	}
	for _, r := range runs {
		g.answerPieces(r)
	}
}

func (g *ingest) answerPieces(r *pieceRun) {
	it := r.list[0]
	switch {
	case r.refusal != "":
		it.c.end(malformed(fmt.Errorf("%w: %s", wire.ErrFrame, r.refusal)))
	case r.disposition == notHolder:
		it.c.stop(it.job, it.epoch, "not yours")
	case r.disposition == afterGap:
		it.c.sendGap(it.job, it.epoch, r.lease.seq+1)
	default:
		g.d.counts.duplicates.Add(int64(len(r.list) - len(r.rows)))
		g.acknowledge(r.list[len(r.list)-1], len(r.list), r.seq)
		if len(r.rows) > 0 {
			g.d.Logs.Moved(it.c.runner.Workspace, it.job)
		}
	}
}

func (g *ingest) writePieces(ctx context.Context, list []*item) (runs []*pieceRun, err error) {
	// Should this host vanish, the server must release the leases for the replica that its runners connect to.
	tx, err := g.d.DB.BeginTx(ctx, pgx.TxOptions{BeginQuery: `begin; set local idle_in_transaction_session_timeout = '10s'`})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	workspaces, jobs := sortedKeys(list)
	rows, _ := tx.Query(ctx, `
		select l.* from unnest($1::uuid[], $2::uuid[]) as k (workspace_id, job_id)
		cross join lateral (
			select `+leaseColumns+` from job_leases l where l.workspace_id = k.workspace_id and l.job_id = k.job_id for update) l`,
		workspaces, jobs)
	leases, err := collectLeases(rows)
	if err != nil {
		return nil, err
	}
	var batch pgx.Batch
	for _, q := range splitRuns(list) {
		r, err := g.newPieceRun(ctx, q, leases[q.key])
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
		if r.disposition == inOrder && r.refusal == "" { // another connection of the runner may have sent the same pieces in this batch
			l := r.lease
			l.seq, l.bytes, l.truncated, l.line = r.seq, r.end, r.truncated, r.line
			leases[q.key] = l
		}
	}
	queuePieces(&batch, runs)
	if batch.Len() == 0 {
		return runs, nil
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("write pieces of logs: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("commit pieces of logs: %w", err)
	}
	return runs, nil
}

// splitRuns splits items into runs of one job, connection and epoch with consecutive numbers, in
// the order of the locks.
func splitRuns(list []*item) (out []*queue) {
	for _, q := range byJob(list) {
		begin := 0
		for i, it := range q.list {
			if first := q.list[begin]; it.c != first.c || it.epoch != first.epoch || i > begin && it.seq != q.list[i-1].seq+1 {
				out = append(out, &queue{q.key, q.list[begin:i]})
				begin = i
			}
		}
		out = append(out, &queue{q.key, q.list[begin:]})
	}
	slices.SortStableFunc(out, func(a, b *queue) int { return a.key.compare(b.key) })
	return out
}

// newPieceRun decides which pieces of a queue with consecutive numbers are stored.
func (g *ingest) newPieceRun(ctx context.Context, q *queue, l lease) (*pieceRun, error) {
	r := &pieceRun{queue: q, lease: l, seq: l.seq, end: l.bytes, truncated: l.truncated, line: l.line}
	first, last := q.list[0], q.list[len(q.list)-1]
	if r.disposition = l.classify(first, first.seq, last.seq); r.disposition != inOrder {
		return r, nil
	}
	for _, it := range q.list {
		end := r.end + int64(len(it.data))
		switch {
		case it.seq <= l.seq:
			continue
		case len(it.data) == 0 || r.truncated: // only its number is stored
		case it.offset != r.end:
			r.refusal = fmt.Sprintf("a piece of log at %d instead of %d", it.offset, r.end)
			return r, nil
		case end > wire.MaxLog:
			r.truncated = true // the runner does not keep to the limit
		default:
			room, err := g.countLog(ctx, l, r.end, end)
			if err != nil {
				return nil, err
			}
			if r.truncated = !room; room {
				r.rows, r.end, r.line = append(r.rows, it), end, lineAfter(r.line, it.data)
			}
		}
		r.truncated = r.truncated || it.truncated
		r.seq = it.seq
	}
	return r, nil
}

// countLog counts what is to be stored of a log, once however often the runner has to send it, and
// reports whether there is room for it.
func (g *ingest) countLog(ctx context.Context, l lease, from, end int64) (room bool, err error) {
	log := logKey{l.leaseKey, l.epoch}
	counted, _ := g.counted.Get(log)
	if end <= counted {
		return true, nil
	}
	wait, err := g.d.CountLog(ctx, l.workspace, l.submitter, int(end-max(from, counted)))
	if err != nil || wait > 0 {
		return false, err
	}
	g.counted.Add(log, end)
	return true, nil
}

// lineAfter returns the line number after data that starts in the given line; 0, for unknown, stays
// 0.
func lineAfter(line int64, data []byte) int64 {
	if line == 0 {
		return 0
	}
	return line + int64(bytes.Count(data, []byte{'\n'}))
}

// queuePieces queues the writes of all runs, in two statements.
func queuePieces(b *pgx.Batch, runs []*pieceRun) {
	var to [2]idArrays
	var epochs, leaseEpochs []int
	var from, lines, seqs, ends, endLines, chunks []int64
	var at []time.Time
	var data [][]byte
	var truncated []bool
	for _, r := range runs {
		if r.disposition != inOrder || r.refusal != "" {
			continue
		}
		to[1].add(r.leaseKey)
		leaseEpochs, seqs, ends = append(leaseEpochs, r.epoch), append(seqs, r.seq), append(ends, r.end)
		chunks, truncated, endLines = append(chunks, int64(len(r.rows))), append(truncated, r.truncated), append(endLines, r.line)
		line := r.lease.line
		for _, it := range r.rows {
			to[0].add(r.leaseKey)
			epochs, from, at, data = append(epochs, it.epoch), append(from, it.offset), append(at, it.at), append(data, it.data)
			lines, line = append(lines, line), lineAfter(line, it.data)
		}
	}
	if len(data) > 0 {
		b.Queue(`
			insert into job_logs (workspace_id, job_id, epoch, from_byte, at, data, line)
			select workspace_id, job_id, epoch, from_byte, at, data, nullif(line, 0)
			from unnest($1::uuid[], $2::uuid[], $3::int[], $4::bigint[], $5::timestamptz[], $6::bytea[], $7::bigint[])
				as k (workspace_id, job_id, epoch, from_byte, at, data, line)`,
			to[0].workspaces, to[0].jobs, epochs, from, at, data, lines)
	}
	if len(seqs) > 0 {
		b.Queue(`
			update job_leases l set last_seq = greatest(l.last_seq, k.seq), log_bytes = greatest(l.log_bytes, k.bytes),
				log_chunks = l.log_chunks + k.chunks,
				truncated = l.truncated or k.truncated,
				log_lines = greatest(k.line - 1, 0), lines_to = case when k.line > 0 then greatest(l.log_bytes, k.bytes) else -1 end
			from (
				select workspace_id, job_id, epoch, max(seq) as seq, max(bytes) as bytes, sum(chunks) as chunks, bool_or(truncated) as truncated,
					max(line) as line
				from unnest($1::uuid[], $2::uuid[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bool[], $8::bigint[])
					as k (workspace_id, job_id, epoch, seq, bytes, chunks, truncated, line)
				group by workspace_id, job_id, epoch
			) k where l.workspace_id = k.workspace_id and l.job_id = k.job_id and l.epoch = k.epoch`,
			to[1].workspaces, to[1].jobs, leaseEpochs, seqs, ends, chunks, truncated, endLines)
	}
}

type idArrays struct{ workspaces, jobs []events.ID }

func (a *idArrays) add(k leaseKey) {
	a.workspaces, a.jobs = append(a.workspaces, k.workspace), append(a.jobs, k.job)
}

// storeNumbers stores the numbers of successful reports for which nothing was appended, and
// acknowledges all of them. Where something was appended, [Leases] has stored the number. A job
// that reported its end is forgotten.
func (g *ingest) storeNumbers(ctx context.Context, list []*item) {
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b *item) int {
		return leaseKey{a.c.runner.Workspace, a.job}.compare(leaseKey{b.c.runner.Workspace, b.job})
	})
	var to idArrays
	var epochs []int
	var seqs []int64
	var finished []bool
	for _, it := range list {
		_, ends := it.report.Event.(events.JobFinished)
		to.add(leaseKey{it.c.runner.Workspace, it.job})
		epochs, seqs, finished = append(epochs, it.epoch), append(seqs, it.seq), append(finished, ends)
	}
	_, err := g.d.DB.Exec(ctx, `
		update job_leases l set last_seq = k.seq, finished = l.finished or k.finished
		from unnest($1::uuid[], $2::uuid[], $3::int[], $4::bigint[], $5::bool[]) as k (workspace_id, job_id, epoch, seq, finished)
		where l.workspace_id = k.workspace_id and l.job_id = k.job_id and l.epoch = k.epoch and l.last_seq < k.seq`,
		to.workspaces, to.jobs, epochs, seqs, finished)
	if err != nil {
		for _, it := range list {
			g.closeForRetry(it, err)
		}
		return
	}
	for _, it := range list {
		if _, ends := it.report.Event.(events.JobFinished); ends {
			it.c.forget(it.job, it.epoch)
			g.d.Logs.Moved(it.c.runner.Workspace, it.job)
		}
		g.acknowledge(it, 1, it.seq)
	}
}
