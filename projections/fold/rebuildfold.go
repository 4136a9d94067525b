package fold

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/config"
	"svc/events"
)

// limits bound what one transaction folds: the number of logs and the number of events. The rows
// that these events touch stay in memory until they are written.
type limits struct {
	logs   int
	events int64
}

// foldLimits keep the rows of a chunk to some megabytes: that of a run takes a few kilobytes.
var foldLimits = limits{logs: 1000, events: 20_000}

// A stretch is the part of a log after event from, up to and including event to.
type stretch struct {
	workspace events.ID
	from, to  int64
}

// A chunk is what one transaction folds: the beginnings of several logs, or a later stretch of one
// log.
type chunk []stretch

func (c chunk) continuesLog() bool { return c[0].from > 0 }

// fold folds every log up to its present end. The beginnings of all logs are copied into a table
// without indexes. The rest of long logs then needs the lookup indexes, to find the rows that
// exist.
func (r *rebuild) fold(ctx context.Context) error {
	list, err := r.grownLogs(ctx, r.db)
	if err != nil {
		return err
	}
	r.total = r.Resumed
	for _, s := range list {
		r.total += s.to - s.from
	}
	if err := r.foldChunks(ctx, r.planBeginnings(list)); err != nil {
		return err
	}
	rest := r.planRest(list)
	if len(rest) == 0 {
		return nil
	}
	if _, err := r.createIndexes(ctx, r.view.LookupIndexes()); err != nil {
		return err
	}
	return r.foldChunks(ctx, rest)
}

// planBeginnings plans the beginnings of the logs that the table has nothing of.
func (r *rebuild) planBeginnings(list []stretch) []chunk {
	var beginnings []stretch
	for _, s := range list {
		if s.from == 0 {
			beginnings = append(beginnings, stretch{s.workspace, 0, min(s.to, r.limits.events)})
		}
	}
	return groupIntoChunks(beginnings, r.limits)
}

// groupIntoChunks groups stretches into chunks within limits. A stretch that exceeds them gets a chunk of
// its own.
func groupIntoChunks(list []stretch, l limits) (chunks []chunk) {
	var c chunk
	var n int64
	for _, s := range list {
		size := s.to - s.from
		if len(c) > 0 && (len(c) == l.logs || n+size > l.events) {
			chunks, c, n = append(chunks, c), nil, 0
		}
		c, n = append(c, s), n+size
	}
	if len(c) > 0 {
		chunks = append(chunks, c)
	}
	return chunks
}

// planRest plans the rest of logs whose beginning is folded. It leaves rests shorter than a page to
// catchUp.
func (r *rebuild) planRest(list []stretch) (chunks []chunk) {
	for _, s := range list {
		at := r.positions[s.workspace]
		if at == 0 || s.to-at <= min(page, r.limits.events) {
			continue
		}
		for ; at < s.to; at += r.limits.events {
			chunks = append(chunks, chunk{{s.workspace, at, min(at+r.limits.events, s.to)}})
		}
	}
	return chunks
}

func (r *rebuild) foldChunks(ctx context.Context, chunks []chunk) error {
	reads, plan := make([]int, len(chunks)), []chunk{}
	for i, c := range chunks {
		list := c.split()
		reads[i], plan = len(list), append(plan, list...)
	}
	ahead := r.startReadAhead(ctx, plan)
	defer ahead.close()
	for i, c := range chunks {
		n := reads[i]
		err := r.foldChunk(ctx, c, func() (p readResult, ok bool) {
			if n == 0 {
				return readResult{}, false
			}
			if p, ok = ahead.next(); p.last {
				n--
			}
			return p, ok
		})
		for n > 0 { // results that the failed chunk did not consume
			if p, ok := ahead.next(); p.last || !ok {
				n--
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// foldChunk folds a chunk in one transaction. If PostgreSQL refuses a row, it tries each half by
// itself, down to a single log. That log is left to catchUp, which finds and parks the event.
func (r *rebuild) foldChunk(ctx context.Context, c chunk, next func() (readResult, bool)) error {
	if r.positions[c[0].workspace] != c[0].from {
		return nil // an earlier stretch of this log was left to catchUp
	}
	err := pgx.BeginFunc(ctx, r.target, func(tx pgx.Tx) error { return r.foldInto(ctx, tx, c, next) })
	switch {
	case err == nil:
		for _, s := range c {
			r.advance(s.workspace, s.to)
		}
		return nil
	case !r.followed() || !causedByEvent(err):
		return err
	case len(c) == 1:
		return nil
	}
	return r.foldChunks(ctx, []chunk{c[:len(c)/2], c[len(c)/2:]})
}

// foldInto folds the results that next returns into the next table and moves the positions.
func (r *rebuild) foldInto(ctx context.Context, tx pgx.Tx, c chunk, next func() (readResult, bool)) error {
	left := &pgx.Batch{}
	park := r.parkFunc(left)
	records := func() ([]events.Record, error) {
		for {
			p, ok := next()
			if !ok {
				return nil, ctx.Err()
			}
			for _, d := range p.damaged {
				if err := park(d.workspace, d.seq, d.err); err != nil {
					return nil, err
				}
			}
			if p.err != nil || len(p.list) > 0 {
				return p.list, p.err
			}
		}
	}
	if err := r.view.Copy(ctx, tx, r.nextTable, c.continuesLog(), records, park); err != nil {
		return fmt.Errorf("fold %s: %w", c, err)
	}
	r.queueMove(left, c)
	return tx.SendBatch(ctx, left).Close()
}

func (c chunk) String() string {
	if len(c) == 1 {
		return fmt.Sprintf("log %s", c[0].workspace)
	}
	return fmt.Sprintf("%d logs from %s to %s", len(c), c[0].workspace, c[len(c)-1].workspace)
}

// queueMove queues moving the positions of logs to the ends of stretches, as a compare-and-swap. It
// fails with errOvertaken if a position is not where its stretch begins, which means that another
// rebuild writes to the table.
func (r *rebuild) queueMove(b *pgx.Batch, list []stretch) {
	if !r.resumable {
		return
	}
	var workspaces []events.ID
	var seqs []int64
	for _, s := range list {
		if s.from == 0 {
			workspaces, seqs = append(workspaces, s.workspace), append(seqs, s.to)
			continue
		}
		b.Queue(`update rebuilds set seq = $4 where workspace_id = $1 and view = $2 and seq = $3`,
			s.workspace, r.view.Name(), s.from, s.to).Exec(requireRows(1))
	}
	if len(workspaces) > 0 {
		b.Queue(`
			insert into rebuilds (workspace_id, view, seq, form, version)
			select w, $1, s, $2, $3 from unnest($4::uuid[], $5::bigint[]) as t (w, s)
			on conflict do nothing`, r.view.Name(), r.view.Form(), config.Version, workspaces, seqs).Exec(requireRows(len(workspaces)))
	}
}

// requireRows returns a check that fails with errOvertaken unless a statement affects n rows.
func requireRows(n int) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != int64(n) {
			return errOvertaken
		}
		return nil
	}
}
