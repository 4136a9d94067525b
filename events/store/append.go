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

// appendSQL advances the head rows of the batch's workspaces, $1 to $3, and inserts its
// events, $4 to $14, numbered from there: "after" is how many events of the batch follow in
// the same log. It returns the new heads and how many events were inserted. An event is not
// inserted if its version is taken, or if it has to follow another event ("follows") which
// does not exist.
//
// "offset 0" makes the planner look that other event up in the index. Without it, a plan
// that was made while the log was small reads the whole log, and is kept as the log grows.
//
// The events of a log all have the time of the newest one if the clock is behind that. A head
// row that is ahead of the clock by more than a minute is not believed: it may have been
// changed by hand, so the newest event decides, and the row is correct again. It is believed if
// that event is not visible, which was appended while the statement waited for the row.
const appendSQL = appendBegin + `
		on conflict do nothing` + appendEnd + ` from heads`

// appendAndCommitSQL is appendSQL for transactions that commit in the same round trip. It
// divides by zero unless all events were inserted. It lets a version that is taken violate
// the unique key, because "on conflict do nothing", which checks each index before the
// insert, is slower.
const appendAndCommitSQL = appendBegin + appendEnd + `, 1 / ((select count(*) from stored) = cardinality($5::bigint[]))::int from heads`

const (
	appendBegin = `
	with heads as (
		insert into logs as l (workspace_id, head, last_at)
		select * from unnest($1::uuid[], $2::bigint[], $3::timestamptz[])
		on conflict (workspace_id) do update set head = l.head + excluded.head, last_at = greatest(excluded.last_at,
			case when l.last_at <= excluded.last_at + interval '1 minute' then l.last_at
			else coalesce((select at from events e where e.workspace_id = l.workspace_id and e.seq = l.head), l.last_at) end)
		returning workspace_id, head, last_at
	), stored as (
		insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data, mac)
		select workspace_id, h.head - b.after, b.id, b.stream, b.version, b.kind, b.schema, h.last_at, b.meta, b.data, b.mac
		from unnest($4::uuid[], $5::bigint[], $6::uuid[], $7::uuid[], $8::int[], $9::bool[], $10::text[],
			$11::smallint[], $12::json[], $13::json[], $14::bytea[])
			as b (workspace_id, after, id, stream, version, follows, kind, schema, meta, data, mac)
		join heads h using (workspace_id)
		where not b.follows or exists (
			select from events e where (e.workspace_id, e.stream, e.version) = (b.workspace_id, b.stream, b.version - 1) offset 0)`
	appendEnd = `
		returning 1
	)
	select workspace_id, head, last_at, (select count(*) from stored)`
)

// staleReadsSQL counts the streams that have changed since a commit read them. It runs
// after appendSQL, which locks the head rows, so that nobody else can write to the streams
// before the commit. If $4 is true, the commit follows in the same round trip; the
// statement then divides by zero if there is such a stream.
const staleReadsSQL = `
	select count(*), 1 / (not $4 or count(*) = 0)::int from unnest($1::uuid[], $2::uuid[], $3::int[]) as s (workspace_id, stream, version)
	where version > 0 and not exists (
		select from events e where (e.workspace_id, e.stream, e.version) = (s.workspace_id, s.stream, s.version) offset 0)
	or exists (
		select from events e where (e.workspace_id, e.stream, e.version) = (s.workspace_id, s.stream, s.version + 1) offset 0)`

// limitsSQL makes the session keep its plans, because planning takes as long as appending.
// It limits waiting for a lock to $1 milliseconds, each statement to $2, and waiting for the
// client's next statement to $2 as well: a client whose host has vanished must not hold the head
// row until TCP notices. The server has to give up before the client does: by then the client's
// commit may already be on its way.
const limitsSQL = `
	select set_config('plan_cache_mode', 'force_generic_plan', true), set_config('lock_timeout', $1, true),
		set_config('statement_timeout', $2, true), set_config('idle_in_transaction_session_timeout', $2, true)`

// remainingTimeSQL limits the next statement to what is left of the $1 milliseconds that the
// transaction has in total. PostgreSQL's limit is for each statement, but the client waits
// for their sum.
const remainingTimeSQL = `
	select set_config('statement_timeout',
		greatest($1::bigint - extract(epoch from clock_timestamp() - transaction_timestamp()) * 1000, 1)::bigint::text, true)`

// SQLSTATEs.
const (
	divisionByZero   = "22012" // a check failed in a round trip that would have committed
	uniqueViolation  = "23505" // another writer's event has that version
	lockNotAvailable = "55P03" // a row was locked for too long
	queryCanceled    = "57014" // the statement ran into its time limit
	idleForTooLong   = "25P03" // the server ended the connection, because the client sent no statement in time
)

// errLockTimeout means that a row was locked for too long, or the transaction took too long, and
// that nothing was stored.
var errLockTimeout = fmt.Errorf("%w: %w", fault.ErrBusy, context.DeadlineExceeded)

// errRepeated means that a command with the same idempotency key has been stored before.
var errRepeated = errors.New("command repeated")

// errNoConnection means that nothing was sent to the database.
var errNoConnection = errors.New("no connection")

// A transaction is one attempt to store a batch.
type transaction struct {
	author       Authenticator
	batch        []*pending
	records      []events.Record
	columns      *eventColumns              // of records, by column
	reads        *pgx.Batch                 // queries of the rows that views change
	changes      []func(b *pgx.Batch) error // write the views' rows, after reads has been executed
	follows      map[*events.Write]bool     // whether the event before the write's first is stored already
	oneRoundTrip bool                       // append, checks and commit are one round trip
	inserted     int                        // events that were inserted
	staleReads   int                        // streams that have changed since a commit read them
	taken        *events.TakenError         // a key that somebody else holds
	repeated     int                        // commands that had been stored before
	limit        time.Duration              // for all statements before the commit
}

// transact stores the whole batch in one transaction. It is one round trip if no view
// changes and no key is involved, and two otherwise: one that appends and reads, one that
// writes the views and commits. wait is how long it waits for a locked row before it gives
// up.
func (s *Store) transact(ctx context.Context, batch []*pending, wait time.Duration) error {
	t, err := s.prepare(batch)
	if err != nil {
		return err
	}
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("append: %w: %w", errNoConnection, err)
	}
	defer conn.Release() // a connection that is still in a transaction is closed by the pool
	first, limit := begin(ctx, wait)
	t.limit = limit
	return t.store(ctx, conn.Conn(), first)
}

// prepare does the part of a transaction that needs no database.
func (s *Store) prepare(batch []*pending) (*transaction, error) {
	t := &transaction{author: s.author, batch: batch, columns: &eventColumns{}, reads: &pgx.Batch{}}
	if err := t.checkVersions(); err != nil {
		return nil, err
	}
	for _, p := range batch {
		if p.size() == 0 {
			return nil, errors.New("append: a commit has no event")
		}
		if err := t.addRecords(p.commit); err != nil {
			return nil, err
		}
	}
	for _, v := range s.views {
		if change := v.Load(t.reads, t.records); change != nil {
			t.changes = append(t.changes, change)
		}
	}
	t.oneRoundTrip = len(t.changes) == 0 && !t.usesKeys()
	return t, nil
}

// begin queues the start of a transaction. lock limits the wait for a lock, limit each
// statement: it is 80 % of what ctx leaves the client.
func begin(ctx context.Context, lock time.Duration) (b *pgx.Batch, limit time.Duration) {
	deadline, _ := ctx.Deadline()
	limit = max(time.Until(deadline)*4/5, time.Millisecond)
	b = &pgx.Batch{}
	b.Queue("begin")
	b.Queue(limitsSQL, strconv.FormatInt(lock.Milliseconds(), 10), strconv.FormatInt(limit.Milliseconds(), 10))
	return b, limit
}

// store executes and commits the transaction. first holds the statements that begin it.
func (t *transaction) store(ctx context.Context, conn *pgx.Conn, first *pgx.Batch) error {
	t.queueAppend(first)
	checks := &pgx.Batch{}
	t.queueStaleReads(checks)
	t.queueKeys(checks)
	t.queueCommands(checks)
	checks.QueuedQueries = append(checks.QueuedQueries, t.reads.QueuedQueries...)
	t.queueLimited(first, checks)
	if t.oneRoundTrip {
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

// queueLimited queues statements, each limited to what is left of the transaction's time.
func (t *transaction) queueLimited(b, statements *pgx.Batch) {
	for _, q := range statements.QueuedQueries {
		b.Queue(remainingTimeSQL, t.limit.Milliseconds())
		b.QueuedQueries = append(b.QueuedQueries, q)
	}
}

// commit sends the last round trip, which ends with the commit.
func (t *transaction) commit(ctx context.Context, conn *pgx.Conn, last *pgx.Batch) error {
	last.Queue("commit")
	err := conn.SendBatch(ctx, last).Close()
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		t.assignRecords()
		return nil
	case ok && t.oneRoundTrip && (pg.Code == divisionByZero || pg.Code == uniqueViolation):
		return rollBack(ctx, conn, events.ErrConflict)
	case ok && (pg.SeverityUnlocalized == "ERROR" || pg.Code == idleForTooLong):
		return rollBack(ctx, conn, err)
	}
	return fmt.Errorf("append: %w: %w", events.ErrOutcomeUnknown, err)
}

// usesKeys reports whether a commit claims a unique key or has an idempotency key.
func (t *transaction) usesKeys() bool {
	return slices.ContainsFunc(t.batch, func(p *pending) bool { return len(p.commit.Claims) > 0 || p.commit.Command.Key != "" })
}

// checkVersions checks each commit against the stream versions that the commits before it in the
// batch leave, and notes which writes follow stored events. The checks in the database see
// the batch only as a whole: with those alone, a later version could get an earlier number.
func (t *transaction) checkVersions() error {
	versions := map[[2]events.ID]int{}
	t.follows = map[*events.Write]bool{}
	for _, p := range t.batch {
		c := p.commit
		for _, r := range c.Reads {
			if version, known := versions[[2]events.ID{c.Workspace, r.Stream}]; known && version != r.Version {
				return fmt.Errorf("append: %w", events.ErrConflict)
			}
			versions[[2]events.ID{c.Workspace, r.Stream}] = r.Version
		}
		for i := range c.Writes {
			w := &c.Writes[i]
			stream := [2]events.ID{c.Workspace, w.Stream}
			version, known := versions[stream]
			if known && version != w.Version {
				return fmt.Errorf("append: %w", events.ErrConflict)
			}
			t.follows[w] = !known && w.Version > 0
			versions[stream] = w.Version + len(w.Events)
		}
	}
	return nil
}

func (t *transaction) queueAppend(b *pgx.Batch) {
	rows, heads := t.columns, t.countEvents(t.columns)
	var workspace events.ID
	var head int64
	var at time.Time
	sql, into := appendSQL, []any{&workspace, &head, &at, &t.inserted}
	if t.oneRoundTrip {
		sql, into = appendAndCommitSQL, append(into, nil)
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
		b.Queue(staleReadsSQL, workspaces, streams, versions, t.oneRoundTrip).QueryRow(func(row pgx.Row) error {
			return row.Scan(&t.staleReads, nil)
		})
	}
}

// check returns the reason why the transaction must not be committed, found by the first
// round trip.
func (t *transaction) check() error {
	switch {
	case t.repeated > 0:
		return errRepeated
	case t.inserted != len(t.records) || t.staleReads > 0:
		return events.ErrConflict
	case t.taken != nil:
		return t.taken
	}
	return nil
}

// rollBack rolls back and returns err. Its result proves that nothing was stored.
func rollBack(ctx context.Context, conn *pgx.Conn, err error) error {
	if _, rollback := conn.Exec(ctx, "rollback"); rollback != nil {
		conn.Close(ctx) // the server rolls back when the connection ends
	}
	switch state := sqlState(err); {
	case state == lockNotAvailable, state == queryCanceled, state == idleForTooLong, errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("append: %w: %w", errLockTimeout, err)
	}
	return fmt.Errorf("append: %w", err)
}

// sqlState returns the SQLSTATE of err, "" if it has none.
func sqlState(err error) string {
	pg, _ := errors.AsType[*pgconn.PgError](err)
	if pg == nil {
		return ""
	}
	return pg.Code
}

// assignRecords gives each commit its records.
func (t *transaction) assignRecords() {
	rest := t.records
	for _, p := range t.batch {
		n := p.size()
		p.result.Records, rest = rest[:n:n], rest[n:]
		p.result.Head = p.result.Records[n-1].Seq
	}
}
