package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/events"
)

// appendSQL numbers a batch of events under the head rows of its workspaces
// and inserts them. It answers the new heads, and how many events went in: one
// that finds its version taken, or no version before its own, does not.
const appendSQL = `
	with batch as (
		select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::timestamptz[], $7::json[], $8::json[])
			with ordinality as b (workspace_id, id, stream, version, kind, at, meta, data, ord)
	), heads as (
		insert into logs as l (workspace_id, head, last_at)
		select workspace_id, count(*), max(at) from batch group by workspace_id order by workspace_id -- one order for all, against deadlocks
		on conflict (workspace_id) do update set head = l.head + excluded.head, last_at = greatest(l.last_at, excluded.last_at)
		returning workspace_id, head, last_at
	), numbered as (
		select b.*, h.last_at, h.head - count(*) over (partition by workspace_id) + row_number() over (partition by workspace_id order by b.ord) as seq
		from batch b join heads h using (workspace_id)
	), stored as (
		insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		select workspace_id, seq, id, stream, version, kind, $9, last_at, meta, data from numbered order by workspace_id, seq
		on conflict do nothing
		returning 1
	)
	select workspace_id, head, last_at, (select count(*) from stored) from heads`

// standSQL counts the streams that do not stand where a commit believes. It
// runs after appendSQL, under the head rows that one holds. A stream that was
// written to has the commit's own events behind the version; one that was only
// read must end there.
//
// With "offset 0" each stream is looked up in the index. Without it a plan that
// is made while the log is small reads the whole log, and is kept as it grows.
const standSQL = `
	select count(*) from unnest($1::uuid[], $2::uuid[], $3::int[], $4::bool[]) as s (workspace_id, stream, version, read)
	where version > 0 and not exists (
		select from events e where (e.workspace_id, e.stream, e.version) = (s.workspace_id, s.stream, s.version) offset 0)
	or read and exists (
		select from events e where (e.workspace_id, e.stream, e.version) = (s.workspace_id, s.stream, s.version + 1) offset 0)`

// errRepeated says that a command had been carried out before.
var errRepeated = errors.New("command repeated")

// A transaction is one attempt to store a batch.
type transaction struct {
	batch    []*pending
	records  []events.Record
	inserted int           // events that went in
	moved    int           // streams that stand elsewhere
	taken    *events.Taken // a key that somebody else holds
	repeated int           // commands that had been carried out
}

// transact stores the whole batch in one transaction of two round trips: one
// that appends and reads, one that writes the views and commits.
func (s *Store) transact(ctx context.Context, batch []*pending) error {
	t := &transaction{batch: batch}
	first, err := t.queue()
	if err != nil {
		return err
	}
	changes := make([]func(*pgx.Batch) error, len(s.views))
	for i, v := range s.views {
		changes[i] = v.Load(first, t.records)
	}
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	defer conn.Release() // a connection that is still in a transaction is closed by the pool
	if err := conn.SendBatch(ctx, first).Close(); err != nil {
		return t.fail(ctx, conn.Conn(), err)
	}
	if err := t.check(); err != nil {
		return t.fail(ctx, conn.Conn(), err)
	}
	second := &pgx.Batch{}
	for _, change := range changes {
		if err := change(second); err != nil {
			return t.fail(ctx, conn.Conn(), err)
		}
	}
	second.Queue("commit")
	if err := conn.SendBatch(ctx, second).Close(); err != nil {
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Severity == "ERROR" {
			return t.fail(ctx, conn.Conn(), err)
		}
		return fmt.Errorf("append: %w: %w", events.ErrOutcomeUnknown, err)
	}
	t.settle()
	return nil
}

// queue prepares the records and queues everything that happens before the
// views change.
func (t *transaction) queue() (*pgx.Batch, error) {
	if !t.inOrder() {
		return nil, fmt.Errorf("append: %w", events.ErrConflict)
	}
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue("set local plan_cache_mode = force_generic_plan") // planning anew takes as long as appending
	if err := t.queueAppend(b); err != nil {
		return nil, err
	}
	t.queueStand(b)
	t.queueKeys(b)
	t.queueCommands(b)
	return b, nil
}

// inOrder reports whether each commit expects the streams where the ones before
// it leave them. The checks in the database see only what the whole batch comes
// to: by them alone a later version could get an earlier number.
func (t *transaction) inOrder() bool {
	stands := map[[2]events.ID]int{}
	expect := func(workspace, stream events.ID, version, after int) bool {
		key := [2]events.ID{workspace, stream}
		at, known := stands[key]
		stands[key] = after
		return !known || at == version
	}
	for _, p := range t.batch {
		for _, r := range p.commit.Reads {
			if !expect(p.commit.Workspace, r.Stream, r.Version, r.Version) {
				return false
			}
		}
		for _, w := range p.commit.Writes {
			if !expect(p.commit.Workspace, w.Stream, w.Version, w.Version+len(w.Events)) {
				return false
			}
		}
	}
	return true
}

func (t *transaction) queueAppend(b *pgx.Batch) error {
	var (
		workspaces, ids, streams []events.ID
		versions                 []int
		kinds                    []string
		times                    []time.Time
		metas, datas             [][]byte
	)
	for _, p := range t.batch {
		c := p.commit
		if p.size() == 0 {
			return errors.New("append: a commit has no event")
		}
		meta, err := json.Marshal(c.Envelope)
		if err != nil {
			return fmt.Errorf("encode envelope: %w", err)
		}
		for _, w := range c.Writes {
			for i, e := range w.Events {
				data, err := events.Encode(e)
				if err != nil {
					return err
				}
				r := events.Record{
					Workspace: c.Workspace, ID: events.NewID(c.At), Stream: w.Stream, Version: w.Version + 1 + i,
					Schema: events.Schema, At: c.At.UTC().Truncate(time.Microsecond), Envelope: c.Envelope, Event: e, Data: data,
				}
				t.records = append(t.records, r)
				workspaces, ids, streams = append(workspaces, r.Workspace), append(ids, r.ID), append(streams, r.Stream)
				versions, kinds, times = append(versions, r.Version), append(kinds, e.Kind()), append(times, r.At)
				metas, datas = append(metas, meta), append(datas, data)
			}
		}
	}
	b.Queue(appendSQL, workspaces, ids, streams, versions, kinds, times, metas, datas, events.Schema).Query(func(rows pgx.Rows) error {
		next := map[events.ID]int64{}
		last := map[events.ID]time.Time{}
		var workspace events.ID
		var head int64
		var at time.Time
		_, err := pgx.ForEachRow(rows, []any{&workspace, &head, &at, &t.inserted}, func() error {
			next[workspace], last[workspace] = head+1, at.UTC()
			return nil
		})
		for i := range t.records {
			next[t.records[i].Workspace]--
		}
		for i := range t.records {
			r := &t.records[i]
			r.Seq, r.At = next[r.Workspace], last[r.Workspace]
			next[r.Workspace]++
		}
		return err
	})
	return nil
}

func (t *transaction) queueStand(b *pgx.Batch) {
	var workspaces, streams []events.ID
	var versions []int
	var reads []bool
	add := func(workspace, stream events.ID, version int, read bool) {
		workspaces, streams = append(workspaces, workspace), append(streams, stream)
		versions, reads = append(versions, version), append(reads, read)
	}
	for _, p := range t.batch {
		for _, w := range p.commit.Writes {
			if w.Version > 0 { // a new stream has nothing before it
				add(p.commit.Workspace, w.Stream, w.Version, false)
			}
		}
		for _, r := range p.commit.Reads {
			add(p.commit.Workspace, r.Stream, r.Version, true)
		}
	}
	if len(streams) == 0 {
		return
	}
	b.Queue(standSQL, workspaces, streams, versions, reads).QueryRow(func(row pgx.Row) error { return row.Scan(&t.moved) })
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

// fail rolls back and returns err, which proves that nothing was stored.
func (t *transaction) fail(ctx context.Context, conn *pgx.Conn, err error) error {
	if _, rollback := conn.Exec(ctx, "rollback"); rollback != nil {
		conn.Close(ctx) // the server rolls back when the connection ends
	}
	return fmt.Errorf("append: %w", err)
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
