package fold

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/events"
)

// limits bound what is folded in one transaction: so many logs together, or so many
// events. The rows that these touch are in memory until they are written.
type limits struct {
	logs   int
	events int64
}

// A run's row takes a few kilobytes.
var foldLimits = limits{logs: 1000, events: 20_000}

// A stretch is a part of a log: what follows one event, up to another.
type stretch struct {
	workspace events.ID
	from, to  int64
}

// A chunk is what is folded in one transaction: the beginnings of logs, or a
// stretch of a log of which the table has rows already.
type chunk []stretch

func (c chunk) behind() bool { return c[0].from > 0 }

// fold folds every log up to where it ends now. The beginnings of all logs go into
// a table without indexes. What follows in long logs needs those by which rows
// are found that are there.
func (r *rebuild) fold(ctx context.Context) error {
	list, err := r.grown(ctx, r.db)
	if err != nil {
		return err
	}
	r.total = r.Resumed
	for _, s := range list {
		r.total += s.to - s.from
	}
	if err := r.foldChunks(ctx, r.begins(list)); err != nil {
		return err
	}
	rest := r.goesOn(list)
	if len(rest) == 0 {
		return nil
	}
	if _, err := r.index(ctx, r.view.Lookups()); err != nil {
		return err
	}
	return r.foldChunks(ctx, rest)
}

// begins plans the beginnings of the logs of which the table has nothing.
func (r *rebuild) begins(list []stretch) []chunk {
	var beginnings []stretch
	for _, s := range list {
		if s.from == 0 {
			beginnings = append(beginnings, stretch{s.workspace, 0, min(s.to, r.limits.events)})
		}
	}
	return together(beginnings, r.limits)
}

// together puts stretches into chunks that share a transaction. One that is too long
// for that has one to itself.
func together(list []stretch, l limits) (chunks []chunk) {
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

// goesOn plans what follows in logs of which the table has the beginning. It leaves
// little to catching up.
func (r *rebuild) goesOn(list []stretch) (chunks []chunk) {
	for _, s := range list {
		at := r.at[s.workspace]
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
		list := c.reads()
		reads[i], plan = len(list), append(plan, list...)
	}
	ahead := r.readAhead(ctx, plan)
	defer ahead.close()
	for i, c := range chunks {
		n := reads[i]
		err := r.foldChunk(ctx, c, func() (p portion, ok bool) {
			if n == 0 {
				return portion{}, false
			}
			n--
			return ahead.next()
		})
		for ; n > 0; n-- { // what nobody has asked for
			ahead.next()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// foldChunk folds the stretches of a chunk in one transaction. If PostgreSQL refuses
// some row each half is tried by itself, until the log that has it stands alone:
// that is left to catching up, which goes event by event, and finds which.
func (r *rebuild) foldChunk(ctx context.Context, c chunk, next func() (portion, bool)) error {
	if r.at[c[0].workspace] != c[0].from {
		return nil // the stretch before it was left
	}
	err := pgx.BeginFunc(ctx, r.table, func(tx pgx.Tx) error { return r.foldInto(ctx, tx, c, next) })
	switch {
	case err == nil:
		for _, s := range c {
			r.step(s.workspace, s.to)
		}
		return nil
	case !r.followed() || !poisonous(err):
		return err
	case len(c) == 1:
		return nil
	}
	return r.foldChunks(ctx, []chunk{c[:len(c)/2], c[len(c)/2:]})
}

// foldInto folds what next returns into the next table, and moves the positions.
func (r *rebuild) foldInto(ctx context.Context, tx pgx.Tx, c chunk, next func() (portion, bool)) error {
	left := &pgx.Batch{}
	park := r.parker(left)
	records := func() ([]events.Record, error) {
		for {
			p, ok := next()
			if !ok {
				return nil, ctx.Err()
			}
			for _, d := range p.refused {
				if err := park(d.workspace, d.seq, d.err); err != nil {
					return nil, err
				}
			}
			if p.err != nil || len(p.list) > 0 {
				return p.list, p.err
			}
		}
	}
	if err := r.view.Copy(ctx, tx, r.next, c.behind(), records, park); err != nil {
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

// queueMove queues that the rows of logs come from where the table had them to the
// ends of stretches. It fails if that is not where they are: then another rebuild
// writes to the table.
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
			s.workspace, r.view.Name(), s.from, s.to).Exec(affects(1))
	}
	if len(workspaces) > 0 {
		b.Queue(`
			insert into rebuilds (workspace_id, view, seq, form)
			select w, $1, s, $2 from unnest($3::uuid[], $4::bigint[]) as t (w, s)
			on conflict do nothing`, r.view.Name(), r.view.Form(), workspaces, seqs).Exec(affects(len(workspaces)))
	}
}

// affects fails for a statement that is about another number of rows.
func affects(n int) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != int64(n) {
			return errOvertaken
		}
		return nil
	}
}
