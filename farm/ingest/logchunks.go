package ingest

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

// A chunkRun is consecutive log chunks of one job, and what becomes of them.
type chunkRun struct {
	*jobItems
	lease
	disposition disposition
	rows        []*Item // chunks to store
	seq, end    int64   // last number and log size after the run
	line        int64   // line number at the end, 0 if it is not known
	truncated   bool
	refusal     string // why the run is refused, "" if it is not
}

// StoreChunks stores log chunks of several jobs in one transaction, and acknowledges them.
func (g *Ingest) StoreChunks(ctx context.Context, list []*Item) error {
	if len(list) == 0 {
		return nil
	}
	runs, err := g.writeChunks(ctx, list)
	for _, r := range runs {
		g.answerChunks(r)
	}
	return err
}

func (g *Ingest) answerChunks(r *chunkRun) {
	it := r.list[0]
	switch {
	case r.refusal != "":
		it.From.Malformed(fmt.Errorf("%w: %s", wire.ErrFrame, r.refusal))
	case r.disposition == notHolder:
		it.From.Stop(it.Job, it.Epoch, "not yours")
	case r.disposition == afterGap:
		it.From.Gap(it.Job, it.Epoch, r.lease.seq+1)
	default:
		g.Duplicates.Add(int64(len(r.list) - len(r.rows)))
		g.acknowledge(r.list[len(r.list)-1], len(r.list), r.seq)
		if len(r.rows) > 0 {
			g.Logs.Moved(it.Meta.Workspace, it.Job)
		}
	}
}

func (g *Ingest) writeChunks(ctx context.Context, list []*Item) (runs []*chunkRun, err error) {
	// Should this host vanish, the server must release the leases for the replica that its runners connect to.
	tx, err := g.DB.BeginTx(ctx, pgx.TxOptions{BeginQuery: `begin; set local idle_in_transaction_session_timeout = '10s'`})
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
	for _, run := range splitRuns(list) {
		r := g.newChunkRun(ctx, run, leases[run.key])
		runs = append(runs, r)
		if r.disposition == inOrder && r.refusal == "" { // another connection of the runner may have sent the same chunks in this batch
			l := r.lease
			l.seq, l.bytes, l.truncated, l.line = r.seq, r.end, r.truncated, r.line
			leases[run.key] = l
		}
	}
	queueChunks(&batch, runs)
	if batch.Len() == 0 {
		return runs, nil
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("write chunks of logs: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("commit chunks of logs: %w", err)
	}
	return runs, nil
}

// splitRuns splits items into runs of one job, connection and epoch with consecutive numbers, in
// the order of the locks.
func splitRuns(list []*Item) (out []*jobItems) {
	for _, j := range byJob(list) {
		begin := 0
		for i, it := range j.list {
			if first := j.list[begin]; it.From != first.From || it.Epoch != first.Epoch || i > begin && it.Seq != j.list[i-1].Seq+1 {
				out = append(out, &jobItems{j.key, j.list[begin:i]})
				begin = i
			}
		}
		out = append(out, &jobItems{j.key, j.list[begin:]})
	}
	slices.SortStableFunc(out, func(a, b *jobItems) int { return a.key.Compare(b.key) })
	return out
}

// newChunkRun decides which of a job's chunks with consecutive numbers are stored.
func (g *Ingest) newChunkRun(ctx context.Context, items *jobItems, l lease) *chunkRun {
	r := &chunkRun{jobItems: items, lease: l, seq: l.seq, end: l.bytes, truncated: l.truncated, line: l.line}
	first, last := items.list[0], items.list[len(items.list)-1]
	if r.disposition = l.classify(first, first.Seq, last.Seq); r.disposition != inOrder {
		return r
	}
	for _, it := range items.list {
		end := r.end + int64(len(it.Data))
		switch {
		case it.Seq <= l.seq:
			continue
		case len(it.Data) == 0 || r.truncated: // only its number is stored
		case it.Offset != r.end:
			r.refusal = fmt.Sprintf("a chunk of log at %d instead of %d", it.Offset, r.end)
			return r
		case end > wire.MaxLog:
			r.truncated = true // the runner does not keep to the limit
		case g.countLog(ctx, l, r.end, end):
			r.rows, r.end, r.line = append(r.rows, it), end, lineAfter(r.line, it.Data)
		default:
			r.truncated = true
		}
		r.truncated = r.truncated || it.Truncated
		r.seq = it.Seq
	}
	return r
}

// countLog counts what is to be stored of a log, once however often the runner has to send it, and
// reports whether there is room for it.
func (g *Ingest) countLog(ctx context.Context, l lease, from, end int64) (room bool) {
	log := logKey{l.LeaseKey, l.epoch}
	counted, _ := g.counted.Get(log)
	if end <= counted {
		return true
	}
	if g.CountLog(ctx, l.Workspace, l.submitter, int(end-max(from, counted))) > 0 {
		return false
	}
	g.counted.Add(log, end)
	return true
}

// lineAfter returns the line number after data that starts in the given line; 0, for unknown, stays
// 0.
func lineAfter(line int64, data []byte) int64 {
	if line == 0 {
		return 0
	}
	return line + int64(bytes.Count(data, []byte{'\n'}))
}

// queueChunks queues the writes of all runs, in two statements.
func queueChunks(b *pgx.Batch, runs []*chunkRun) {
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
		to[1].add(r.LeaseKey)
		leaseEpochs, seqs, ends = append(leaseEpochs, r.epoch), append(seqs, r.seq), append(ends, r.end)
		chunks, truncated, endLines = append(chunks, int64(len(r.rows))), append(truncated, r.truncated), append(endLines, r.line)
		line := r.lease.line
		for _, it := range r.rows {
			to[0].add(r.LeaseKey)
			epochs, from, at, data = append(epochs, it.Epoch), append(from, it.Offset), append(at, it.At), append(data, it.Data)
			lines, line = append(lines, line), lineAfter(line, it.Data)
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

func (a *idArrays) add(k LeaseKey) {
	a.workspaces, a.jobs = append(a.workspaces, k.Workspace), append(a.jobs, k.Job)
}
