package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// A View is a read model that is updated in the transaction of an append.
type View interface {
	// Load queues reading the rows that records may change. Once those have been read and
	// records are numbered, change queues writing the rows. It is nil if records change
	// none.
	Load(b *pgx.Batch, records []events.Record) (change func(b *pgx.Batch) error)
}

// A Store is the log of all workspaces. Its methods may be called concurrently.
type Store struct {
	db             *pgxpool.Pool
	views          []View
	onAppend       func(workspace events.ID, head int64)
	observe        func(Batch)
	lanes          [laneCount]chan *pending
	waiting        atomic.Int64  // commits whose callers wait
	exclusiveSlots chan struct{} // a semaphore: one value for each commit that is decided under a lock
	timeLimit      time.Duration
	snapshots      snapshots
	author         Author                      // nil: events are appended without a MAC
	permit         func(context.Context) error // set by Permit
	stop           context.CancelFunc
	running        sync.WaitGroup
	ended          chan struct{}
}

// New returns a store whose appends update views and then call onAppend, which must not block.
// Close ends its goroutines.
func New(db *pgxpool.Pool, views []View, onAppend func(workspace events.ID, head int64)) *Store {
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{
		db: db, views: views, onAppend: onAppend, observe: func(Batch) {}, exclusiveSlots: make(chan struct{}, maxExclusive),
		timeLimit: transactionLimit, stop: stop, permit: func(context.Context) error { return nil }, ended: make(chan struct{}),
	}
	for i := range s.lanes {
		s.lanes[i] = make(chan *pending, laneCapacity)
		s.running.Go(func() { s.runLane(ctx, s.lanes[i]) })
	}
	return s
}

// Observe makes s call f for each batch, from the goroutine that stored it: f must not
// block. Call it before the first Append.
func (s *Store) Observe(f func(Batch)) { s.observe = f }

// Close lets appends that have begun finish, refuses others, and returns when all
// goroutines of the store have ended.
func (s *Store) Close() {
	s.stop()
	s.running.Wait()
	for range maxExclusive { // wait until none is running, and let none start
		s.exclusiveSlots <- struct{}{}
	}
	close(s.ended)
}

// Load returns the records of a stream that follow version, oldest first, up to
// [events.LoadLimit] of them.
func (s *Store) Load(ctx context.Context, workspace, stream events.ID, version int) ([]events.Record, error) {
	return streams{s.db}.Load(ctx, workspace, stream, version)
}

// A Querier is a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// After returns the page of a workspace's log that follows seq: up to limit records of up to
// [PageBytes]. It reports an error if an event is missing or cannot be decoded.
func After(ctx context.Context, db Querier, workspace events.ID, seq int64, limit int) ([]events.Record, error) {
	return after(ctx, db, workspace, seq, limit, Scan)
}

// AnyAfter is like [After], but returns an [events.Undecoded] in place of each event that
// cannot be decoded.
func AnyAfter(ctx context.Context, db Querier, workspace events.ID, seq int64, limit int) ([]events.Record, error) {
	return after(ctx, db, workspace, seq, limit, ScanAny)
}

func after(ctx context.Context, db Querier, workspace events.ID, seq int64, limit int, scan scanner) ([]events.Record, error) {
	list, err := contiguous(ctx, db, []Position{{workspace, seq}}, scan, selectEvents, limit)
	if err != nil {
		return nil, fmt.Errorf("read log %s after %d: %w", workspace, seq, err)
	}
	return list, nil
}

// AnyOfStream returns up to limit records of a stream that follow version, oldest first. An
// event that cannot be decoded is an [events.Undecoded].
func AnyOfStream(ctx context.Context, db Querier, workspace, stream events.ID, version, limit int) ([]events.Record, error) {
	list, err := query(ctx, db, ScanAny, `
		select `+EventColumns+` from events
		where workspace_id = $1 and stream = $2 and version > $3 order by version limit $4`, workspace, stream, version, limit)
	if err != nil {
		return nil, fmt.Errorf("read stream %s after %d: %w", stream, version, err)
	}
	return list, nil
}

// AnyOfStreamBefore is like [AnyOfStream] in the other direction: it returns up to limit
// records that precede version, newest first.
func AnyOfStreamBefore(ctx context.Context, db Querier, workspace, stream events.ID, version, limit int) ([]events.Record, error) {
	list, err := query(ctx, db, ScanAny, `
		select `+EventColumns+` from events
		where workspace_id = $1 and stream = $2 and version < $3 order by version desc limit $4`, workspace, stream, version, limit)
	if err != nil {
		return nil, fmt.Errorf("read stream %s before %d: %w", stream, version, err)
	}
	return list, nil
}

// A Position is a position in a log: after the event of that number.
type Position struct {
	Workspace events.ID
	Seq       int64
}

// Columns returns the workspaces and the numbers of positions.
func Columns(list []Position) (workspaces []events.ID, seqs []int64) {
	for _, p := range list {
		workspaces, seqs = append(workspaces, p.Workspace), append(seqs, p.Seq)
	}
	return workspaces, seqs
}

// AfterEach is [After] for several logs, up to limit events of each, one log after the
// other. The logs share [PageBytes] in equal parts.
func AfterEach(ctx context.Context, db Querier, list []Position, limit int) ([]events.Record, error) {
	return contiguous(ctx, db, list, Scan, selectEvents, limit)
}

// AnyAfterEach is [AnyAfter] for several logs, up to limit events of each, one log after
// the other.
func AnyAfterEach(ctx context.Context, db Querier, list []Position, limit int) ([]events.Record, error) {
	return contiguous(ctx, db, list, ScanAny, selectEvents, limit)
}

// StoredAfterEach is [AnyAfterEach] for callers that pass events on as they are stored. It
// decodes none: each event is an [events.Undecoded].
func StoredAfterEach(ctx context.Context, db Querier, list []Position, limit int) ([]events.Record, error) {
	return contiguous(ctx, db, list, scanStored, selectEvents, limit)
}

// EndsAfter returns the positions after the next events of logs, up to limit of each, without
// reading the events. Logs that have nothing new are left out. It reports an error if an event is
// missing.
func EndsAfter(ctx context.Context, db Querier, list []Position, limit int) (ends []Position, err error) {
	workspaces, seqs := Columns(list)
	rows, _ := db.Query(ctx, `
		select log, last, last - behind = n from unnest((select $1::uuid[]), (select $2::bigint[])) as p (log, behind) cross join lateral (
			select count(*) as n, max(seq) as last from (
				select seq from events where workspace_id = log and seq > behind order by seq limit $3) e) e
		where n > 0`, workspaces, seqs, limit)
	var end Position
	var whole bool
	var broken []events.ID
	_, err = pgx.ForEachRow(rows, []any{&end.Workspace, &end.Seq, &whole}, func() error {
		if ends = append(ends, end); !whole {
			broken = append(broken, end.Workspace)
		}
		return nil
	})
	for _, p := range list {
		if err == nil && slices.Contains(broken, p.Workspace) {
			err = findMissing(ctx, db, p)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read where logs end: %w", err)
	}
	return ends, nil
}

// findMissing returns an error that names the first missing event after a position, or nil if none is missing.
func findMissing(ctx context.Context, db Querier, p Position) error {
	for {
		list, err := StoredAfterEach(ctx, db, []Position{p}, events.LoadLimit)
		if err != nil || len(list) == 0 {
			return err
		}
		p.Seq = list[len(list)-1].Seq
	}
}

// AfterKinds is [AnyAfterEach] for callers that need only some kinds of events. kinds lists
// kinds, and nouns that stand for all their kinds. Other events are not decoded: each is an
// [events.Undecoded].
func AfterKinds(ctx context.Context, db Querier, kinds []string, list []Position, limit int) ([]events.Record, error) {
	return contiguous(ctx, db, list, scanWanted, `
		select workspace_id, seq, id, stream, version, kind, schema, at, case when wanted then meta end as meta, case when wanted then data end as data
		from events cross join lateral (select kind = any($5) or split_part(kind, '.', 1) = any($5) as wanted) n`, limit, kinds)
}

// Answer returns what was answered to the actor's command with that idempotency key, and
// the hash of its request. ok is false if there was no such command.
func (s *Store) Answer(
	ctx context.Context, workspace, actor events.ID, key string,
) (answer events.Committed, hash []byte, ok bool, err error) {
	rows, _ := s.db.Query(ctx, `
		select request_hash, answer, seq from commands
		where workspace_id = $1 and actor = $2 and key = $3`, workspace, actor, key)
	answer.Replayed = true
	_, err = pgx.ForEachRow(rows, []any{&hash, &answer.Answer, &answer.Head}, func() error { ok = true; return nil })
	return answer, hash, ok, err
}

// Holder returns the holder of a global key and their workspace. Both are zero if nobody
// holds it.
func (s *Store) Holder(ctx context.Context, key string) (workspace, owner events.ID, err error) {
	rows, _ := s.db.Query(ctx, `select workspace_id, owner from global_keys where key = $1`, key)
	_, err = pgx.ForEachRow(rows, []any{&workspace, &owner}, func() error { return nil })
	if err != nil {
		return workspace, owner, fmt.Errorf("look up key: %w", err)
	}
	return workspace, owner, nil
}

// EventColumns are the columns of events, in the order in which Scan, ScanAny and ScanRow
// read them.
const EventColumns = `workspace_id, seq, id, stream, version, kind, schema, at, meta, data`

type scanner func(row pgx.CollectableRow, more ...any) (events.Record, error)

func query(ctx context.Context, db Querier, scan scanner, sql string, args ...any) ([]events.Record, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows reports the error
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.Record, error) { return scan(row) })
}

// Scan reads a row of [EventColumns], followed by more columns into the destinations given.
func Scan(row pgx.CollectableRow, more ...any) (r events.Record, err error) {
	kind, err := scan(row, &r, more)
	if err != nil {
		return r, err
	}
	return decoded(r, kind)
}

func decoded(r events.Record, kind string) (_ events.Record, err error) {
	if err := json.Unmarshal(r.Meta, &r.Envelope); err != nil {
		return r, fmt.Errorf("decode envelope of event %d: %w", r.Seq, err)
	}
	r.Event, err = events.Decode(kind, r.Schema, r.Data)
	return r, err
}

// ScanAny is [Scan] without errors for events that cannot be decoded: see
// [events.Record.Decoded].
func ScanAny(row pgx.CollectableRow, more ...any) (events.Record, error) {
	r, err := ScanRow(row, more...)
	if err != nil {
		return r.record, err
	}
	return r.Record(), nil
}

// A Row is a row of events that has not been decoded, which takes longer than reading it.
type Row struct {
	record events.Record
	kind   string
}

// ScanRow reads a row of [EventColumns].
func ScanRow(row pgx.CollectableRow, more ...any) (r Row, err error) {
	r.kind, err = scan(row, &r.record, more)
	return r, err
}

// Seq returns the event's number in its log.
func (r *Row) Seq() int64 { return r.record.Seq }

// Bytes returns the size of the row's stored data.
func (r *Row) Bytes() int { return len(r.record.Meta) + len(r.record.Data) }

// Record decodes the row as [ScanAny] does. If the row was summarized, it returns the summary.
func (r *Row) Record() events.Record {
	if r.record.Event != nil {
		return r.record
	}
	return r.record.Decoded(r.kind)
}

// Summarize replaces the row's record by its [events.Record.Summary].
func (r *Row) Summarize() { r.record = r.record.DecodedSummary(r.kind) }

// scanStored is [Scan] without decoding.
func scanStored(row pgx.CollectableRow, more ...any) (r events.Record, err error) {
	kind, err := scan(row, &r, more)
	r.Event = events.Undecoded{Name: kind}
	return r, err
}

// scanWanted is [Scan] for rows that may lack data, which are then not decoded.
func scanWanted(row pgx.CollectableRow, more ...any) (r events.Record, err error) {
	kind, err := scan(row, &r, more)
	switch {
	case err != nil:
		return r, err
	case r.Data == nil:
		r.Event = events.Undecoded{Name: kind}
		return r, events.CheckKnown(kind, r.Schema)
	}
	return decoded(r, kind)
}

func scan(row pgx.CollectableRow, r *events.Record, more []any) (kind string, err error) {
	var at time.Time
	into := []any{&r.Workspace, &r.Seq, &r.ID, &r.Stream, &r.Version, &kind, &r.Schema, &at, &r.Meta, &r.Data}
	err = row.Scan(append(into, more...)...)
	r.At = at.UTC()
	return kind, err
}
