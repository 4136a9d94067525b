package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/events"
	"svc/fault"
)

// appendSQL moves the head rows of the batch's workspaces, $1 to $3, and
// inserts its events, $4 to $14, numbered from there: "after" is how many of the
// batch follow in the same log. It answers the new heads, and how many events
// went in: one that finds its version taken does not, nor one that has to
// follow another which is not there.
//
// With "offset 0" that other one is looked up in the index. Without it a plan
// that is made while the log is small reads the whole log, and is kept as it grows.
const appendSQL = appendBegin + `
		on conflict do nothing` + appendEnd + ` from heads`

// appendAtOnceSQL is appendSQL where the commit follows in the same round trip. It
// divides by zero unless all events went in. A version that is taken violates the
// unique key: to look for that in each index before an event goes in takes longer.
const appendAtOnceSQL = appendBegin + appendEnd + `, 1 / ((select count(*) from stored) = cardinality($5::bigint[]))::int from heads`

const (
	appendBegin = `
	with heads as (
		insert into logs as l (workspace_id, head, last_at)
		select * from unnest($1::uuid[], $2::bigint[], $3::timestamptz[])
		on conflict (workspace_id) do update set head = l.head + excluded.head, last_at = greatest(l.last_at, excluded.last_at)
		returning workspace_id, head, last_at
	), stored as (
		insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data, mac)
		select workspace_id, h.head - b.after, b.id, b.stream, b.version, b.kind, b.schema, h.last_at, b.meta, b.data, b.mac
		from unnest($4::uuid[], $5::bigint[], $6::uuid[], $7::uuid[], $8::int[], $9::bool[], $10::text[], $11::smallint[], $12::json[], $13::json[], $14::bytea[])
			as b (workspace_id, after, id, stream, version, follows, kind, schema, meta, data, mac)
		join heads h using (workspace_id)
		where not b.follows or exists (
			select from events e where (e.workspace_id, e.stream, e.version) = (b.workspace_id, b.stream, b.version - 1) offset 0)`
	appendEnd = `
		returning 1
	)
	select workspace_id, head, last_at, (select count(*) from stored)`
)

// staleReadsSQL counts the streams to which somebody has written since a commit read them.
// It runs after appendSQL, under the head rows that one holds, so that nobody
// else can write to them until the commit. It, too, divides by zero if that
// follows, $4, and there is such a stream.
const staleReadsSQL = `
	select count(*), 1 / (not $4 or count(*) = 0)::int from unnest($1::uuid[], $2::uuid[], $3::int[]) as s (workspace_id, stream, version)
	where version > 0 and not exists (
		select from events e where (e.workspace_id, e.stream, e.version) = (s.workspace_id, s.stream, s.version) offset 0)
	or exists (
		select from events e where (e.workspace_id, e.stream, e.version) = (s.workspace_id, s.stream, s.version + 1) offset 0)`

// limitsSQL keeps plans, because planning anew takes as long as appending, waits
// for a lock for $1 milliseconds, and for a statement for $2: the server is to give
// up before the client does, whose commit may be on its way already.
const limitsSQL = `
	select set_config('plan_cache_mode', 'force_generic_plan', true), set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)`

// restSQL leaves the next statement what is left of the $1 milliseconds that the
// transaction has in all: the server's limit is one of each statement, and the
// client waits for their sum.
const restSQL = `
	select set_config('statement_timeout',
		greatest($1::bigint - extract(epoch from clock_timestamp() - transaction_timestamp()) * 1000, 1)::bigint::text, true)`

// SQLSTATEs.
const (
	divisionByZero   = "22012" // a round trip that commits ends before it does
	uniqueViolation  = "23505" // somebody else's event has the version
	lockNotAvailable = "55P03" // somebody held a row for too long
	queryCanceled    = "57014" // or several did
)

// errHeld says that somebody held a row for too long, and that nothing was stored.
var errHeld = fmt.Errorf("%w: %w", fault.ErrBusy, context.DeadlineExceeded)

// errRepeated says that a command had been carried out before.
var errRepeated = errors.New("command repeated")

// A transaction is one attempt to store a batch.
type transaction struct {
	author   Author
	batch    []*pending
	records  []events.Record
	rows     *eventRows                 // the columns of records
	reads    *pgx.Batch                 // of the rows that views change
	changes  []func(b *pgx.Batch) error // of views, once those are read
	follows  map[*events.Write]bool     // the events before it are stored already
	atOnce   bool                       // one round trip does
	inserted int                        // events that went in
	moved    int                        // streams that somebody has written to since they were read
	taken    *events.Taken              // a key that somebody else holds
	repeated int                        // commands that had been carried out
	limit    time.Duration              // of all that the server does before the commit
}

// transact stores the whole batch in one transaction. If no view changes and no
// key is asked for that is one round trip; if not it is two: one that appends and
// reads, one that writes the views and commits. It gives up if it waits as long as
// wait for somebody who holds a row.
func (s *Store) transact(ctx context.Context, batch []*pending, wait time.Duration) error {
	t, err := s.prepare(batch)
	if err != nil {
		return err
	}
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	defer conn.Release() // a connection that is still in a transaction is closed by the pool
	t.limit = serverLimit(ctx)
	return t.store(ctx, conn.Conn(), begin(wait, t.limit))
}

// prepare makes everything of a transaction that needs no database.
func (s *Store) prepare(batch []*pending) (*transaction, error) {
	t := &transaction{author: s.author, batch: batch, reads: &pgx.Batch{}}
	if err := t.order(); err != nil {
		return nil, err
	}
	if err := t.record(); err != nil {
		return nil, err
	}
	for _, v := range s.views {
		if change := v.Load(t.reads, t.records); change != nil {
			t.changes = append(t.changes, change)
		}
	}
	t.atOnce = len(t.changes) == 0 && !t.asks()
	return t, nil
}

// serverLimit is how long the server has: less than the client, which waits until ctx ends.
func serverLimit(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return max(time.Until(deadline)*4/5, time.Millisecond)
}

// begin queues the beginning of a transaction that has a limit in all, and waits
// for a lock as long as lock.
func begin(lock, limit time.Duration) *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(limitsSQL, strconv.FormatInt(lock.Milliseconds(), 10), strconv.FormatInt(limit.Milliseconds(), 10))
	return b
}

// store carries out the transaction behind what first has, and commits it.
func (t *transaction) store(ctx context.Context, conn *pgx.Conn, first *pgx.Batch) error {
	t.queue(first)
	if t.atOnce {
		return t.commit(ctx, conn, first)
	}
	if err := conn.SendBatch(ctx, first).Close(); err != nil {
		return rollBack(ctx, conn, err)
	}
	if err := t.check(); err != nil {
		return rollBack(ctx, conn, err)
	}
	second := &pgx.Batch{}
	for _, change := range t.changes {
		if err := change(second); err != nil {
			return rollBack(ctx, conn, err)
		}
	}
	last := &pgx.Batch{}
	t.queueLimited(last, second)
	return t.commit(ctx, conn, last)
}

// queueLimited queues statements, each with the rest of the time as its limit.
func (t *transaction) queueLimited(b, statements *pgx.Batch) {
	for _, q := range statements.QueuedQueries {
		b.Queue(restSQL, t.limit.Milliseconds())
		b.QueuedQueries = append(b.QueuedQueries, q)
	}
}

// commit sends the last round trip.
func (t *transaction) commit(ctx context.Context, conn *pgx.Conn, last *pgx.Batch) error {
	last.Queue("commit")
	err := conn.SendBatch(ctx, last).Close()
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		t.settle()
		return nil
	case ok && t.atOnce && (pg.Code == divisionByZero || pg.Code == uniqueViolation):
		return rollBack(ctx, conn, events.ErrConflict)
	case ok && pg.SeverityUnlocalized == "ERROR":
		return rollBack(ctx, conn, err)
	}
	return fmt.Errorf("append: %w: %w", events.ErrOutcomeUnknown, err)
}

// asks reports whether a commit depends on what is found under a key.
func (t *transaction) asks() bool {
	return slices.ContainsFunc(t.batch, func(p *pending) bool { return len(p.commit.Claims) > 0 || p.commit.Command.Key != "" })
}

// queue queues everything that happens before the views change.
func (t *transaction) queue(b *pgx.Batch) {
	t.queueAppend(b)
	rest := &pgx.Batch{}
	t.queueStaleReads(rest)
	t.queueKeys(rest)
	t.queueCommands(rest)
	rest.QueuedQueries = append(rest.QueuedQueries, t.reads.QueuedQueries...)
	t.queueLimited(b, rest)
}

// order holds each commit against where the ones before it leave the streams,
// and notes which writes follow events that are stored already. The checks in the
// database see only what the whole batch comes to: by them alone a later version
// could get an earlier number.
func (t *transaction) order() error {
	stands := map[[2]events.ID]int{}
	t.follows = map[*events.Write]bool{}
	for _, p := range t.batch {
		c := p.commit
		for _, r := range c.Reads {
			if at, known := stands[[2]events.ID{c.Workspace, r.Stream}]; known && at != r.Version {
				return fmt.Errorf("append: %w", events.ErrConflict)
			}
			stands[[2]events.ID{c.Workspace, r.Stream}] = r.Version
		}
		for i := range c.Writes {
			w := &c.Writes[i]
			stream := [2]events.ID{c.Workspace, w.Stream}
			at, known := stands[stream]
			if known && at != w.Version {
				return fmt.Errorf("append: %w", events.ErrConflict)
			}
			t.follows[w] = !known && w.Version > 0
			stands[stream] = w.Version + len(w.Events)
		}
	}
	return nil
}

func (t *transaction) queueAppend(b *pgx.Batch) {
	rows, heads := t.rows, t.count(t.rows)
	var workspace events.ID
	var head int64
	var at time.Time
	sql, into := appendSQL, []any{&workspace, &head, &at, &t.inserted}
	if t.atOnce {
		sql, into = appendAtOnceSQL, append(into, nil)
	}
	b.Queue(sql, heads.workspaces, heads.counts, heads.times, rows.workspaces, rows.after, rows.ids, rows.streams,
		rows.versions, rows.follows, rows.kinds, rows.schemas, rows.metas, rows.datas, rows.macs,
	).Query(func(found pgx.Rows) error {
		ends := make(map[events.ID]events.Record, len(heads.workspaces))
		_, err := pgx.ForEachRow(found, into, func() error {
			ends[workspace] = events.Record{Seq: head, At: at.UTC()}
			return nil
		})
		for i := range t.records {
			r, head := &t.records[i], ends[t.records[i].Workspace]
			r.Seq, r.At = head.Seq-rows.after[i], head.At
		}
		return err
	})
}

func (t *transaction) queueStaleReads(b *pgx.Batch) {
	var workspaces, streams []events.ID
	var versions []int
	for _, p := range t.batch {
		for _, r := range p.commit.Reads {
			workspaces, streams, versions = append(workspaces, p.commit.Workspace), append(streams, r.Stream), append(versions, r.Version)
		}
	}
	if len(streams) > 0 {
		b.Queue(staleReadsSQL, workspaces, streams, versions, t.atOnce).QueryRow(func(row pgx.Row) error { return row.Scan(&t.moved, nil) })
	}
}

// check says whether everything that the first round trip asked for came true.
func (t *transaction) check() error {
	switch {
	case t.repeated > 0:
		return errRepeated
	case t.inserted != len(t.records) || t.moved > 0:
		return events.ErrConflict
	case t.taken != nil:
		return t.taken
	}
	return nil
}

// rollBack rolls back and returns err, which proves that nothing was stored.
func rollBack(ctx context.Context, conn *pgx.Conn, err error) error {
	if _, rollback := conn.Exec(ctx, "rollback"); rollback != nil {
		conn.Close(ctx) // the server rolls back when the connection ends
	}
	if code(err) == lockNotAvailable || code(err) == queryCanceled {
		return fmt.Errorf("append: %w: %w", errHeld, err)
	}
	return fmt.Errorf("append: %w", err)
}

// code returns the SQLSTATE of err, "" if it has none.
func code(err error) string {
	pg, _ := errors.AsType[*pgconn.PgError](err)
	if pg == nil {
		return ""
	}
	return pg.Code
}

// settle hands each commit the records that became of it.
func (t *transaction) settle() {
	rest := t.records
	for _, p := range t.batch {
		n := p.size()
		p.result.Records, rest = rest[:n:n], rest[n:]
		p.result.Head = p.result.Records[n-1].Seq
	}
}
