// Package auditlog contains the view by which the audit log is searched: an index of blocks of records (index.go,
// postings.go), searches of it (query.go, search.go), and its comparison with the log.
package auditlog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
	"svc/projections/fold"
)

// Audit is the view by which the audit log is searched: an index over the events of the log, which
// remain the only copy of the records. It is followed. It indexes whole blocks of records; a search
// scans the records after the last whole block itself, so it finds whatever is in the log.
type Audit struct{ DB *pgxpool.Pool }

// auditView folds all events, also damaged ones. It waits for the build that knows an event's kind.
type auditView struct{}

// View is the view of [Audit].
var View = auditView{}

func (auditView) Name() string            { return "audit" }
func (auditView) Mode() fold.Mode         { return fold.Followed }
func (auditView) Form() int               { return 1 }
func (auditView) Folds(string) bool       { return true }
func (auditView) FoldsDamaged() bool      { return true }
func (auditView) PrimaryKey() []string    { return []string{"workspace_id", "entry"} }
func (auditView) LookupIndexes() []string { return []string{"audit_pkey"} }

func (auditView) Read(ctx context.Context, db store.Querier, list []store.Position, limit int) ([]events.Record, error) {
	return store.Page{Logs: list, Limit: limit, Decode: store.Known}.Read(ctx, db)
}

// Load reads the missing beginnings of the blocks that records complete, then the names of their
// targets, and then writes the index, with one statement per log.
func (auditView) Load(b *pgx.Batch, table string, records []events.Record) fold.Step {
	list := completedBlocks(records)
	if len(list) == 0 {
		return nil
	}
	for i := range list {
		list[i].queueMissingHead(b)
	}
	return func(b *pgx.Batch) (fold.Step, error) {
		names := make([]targetNames, len(list))
		for i, u := range list {
			if err := u.checkComplete(); err != nil {
				return nil, err
			}
			names[i] = targetNames{}
			names[i].queueRead(b, table, u.workspace, targetsOf(u.records), u.begin)
		}
		return func(b *pgx.Batch) (fold.Step, error) {
			for i, u := range list {
				s := newSegment()
				for block := range slices.Chunk(u.records, blockSize) {
					s.add(indexBlock(block, names[i]))
				}
				queueIndex(b, table, s.rows)
			}
			return nil, nil
		}, nil
	}
}

// A newBlocks has the records after begin that complete one or more blocks of a log.
type newBlocks struct {
	workspace events.ID
	begin     int64
	records   []events.Record
}

// completedBlocks returns, for each log, the blocks whose last record is among records. The first block
// may lack records from before this page.
func completedBlocks(records []events.Record) (list []*newBlocks) {
	from := 0
	for i, r := range records {
		if i > 0 && records[i-1].Workspace != r.Workspace {
			from = i
		}
		if r.Seq%blockSize != 0 {
			continue
		}
		if n := len(list); n == 0 || list[n-1].workspace != r.Workspace {
			list = append(list, &newBlocks{workspace: r.Workspace, begin: r.Seq - blockSize})
		}
		list[len(list)-1].records = records[from : i+1]
	}
	return list
}

// queueMissingHead queues reading the records that the first block lacks.
func (u *newBlocks) queueMissingHead(b *pgx.Batch) {
	first := u.records[0].Seq
	if first == u.begin+1 {
		return
	}
	b.Queue(`
		select `+store.EventColumns+` from events
		where workspace_id = $1 and seq > $2 and seq < $3 order by seq`, u.workspace, u.begin, first,
	).Query(func(rows pgx.Rows) error {
		start, err := pgx.CollectRows(rows, scanSummary)
		u.records = append(start, u.records...)
		return err
	})
}

// scanSummary reads a row of [store.EventColumns] and keeps the summary of its record.
func scanSummary(row pgx.CollectableRow) (events.Record, error) {
	r, err := store.ScanKnown(row)
	if err != nil {
		return r, err
	}
	return r.Summary(), nil
}

// checkComplete returns an error if a record of the blocks is missing.
func (u *newBlocks) checkComplete() error {
	for i, r := range u.records {
		if want := u.begin + int64(i) + 1; r.Seq != want {
			return fmt.Errorf("log %s: event %d is missing, found %d in its place", u.workspace, want, r.Seq)
		}
	}
	return nil
}

// targetsOf returns the targets of records, without duplicates.
func targetsOf(records []events.Record) (list []events.ID) {
	for _, r := range records {
		if id := r.Target().ID; !id.IsZero() && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// queueRead queues reading the names that targets had at record upTo.
func (n targetNames) queueRead(b *pgx.Batch, table string, workspace events.ID, targets []events.ID, upTo int64) {
	if len(targets) == 0 {
		return
	}
	first, last := make([][]byte, len(targets)), make([][]byte, len(targets))
	for i, id := range targets {
		first[i], last[i] = nameEntry(id, 0), nameEntry(id, upTo)
	}
	b.Queue(fmt.Sprintf(`
		select k.id, a.data
		from unnest($2::uuid[], $3::bytea[], $4::bytea[]) as k (id, first, last)
		cross join lateral (
			select data from %s t where t.workspace_id = $1 and t.entry >= k.first and t.entry <= k.last
			order by t.entry desc limit 1) a`, table), workspace, targets, first, last,
	).Query(func(rows pgx.Rows) error {
		var id events.ID
		var name []byte
		_, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error {
			if _, known := n[id]; !known {
				n[id] = string(name)
			}
			return nil
		})
		return err
	})
}

// queueIndex queues writing rows of one workspace. It appends to posting lists that exist.
func queueIndex(b *pgx.Batch, table string, rows []auditRow) {
	entries, datas := make([][]byte, len(rows)), make([][]byte, len(rows))
	for i, r := range rows {
		entries[i], datas[i] = r.Entry, r.Data
	}
	b.Queue(fmt.Sprintf(`
		insert into %s as a (workspace_id, entry, data) select $1, * from unnest($2::bytea[], $3::bytea[])
		on conflict (workspace_id, entry) do update set data = a.data || excluded.data`, table), rows[0].Workspace, entries, datas)
}

// Loader implements [fold.View].
func (auditView) Loader(table string, onto bool) fold.Loader {
	return &auditLoader{table: table, onto: onto, segment: newSegment()}
}

// An auditLoader loads rows of the index.
type auditLoader struct {
	table string
	onto  bool
	*segment

	workspace events.ID // log of block
	names     targetNames
	block     []events.Record
}

// Fold indexes whole blocks. The beginning of a log that is indexed may end within a block.
func (l *auditLoader) Fold(ctx context.Context, tx pgx.Tx, records []events.Record, _ fold.ParkFunc) error {
	if l.onto {
		return fold.FoldPage(ctx, tx, View, l.table, records, func(*pgx.Batch) {})
	}
	for _, r := range records {
		if r.Workspace != l.workspace {
			l.workspace, l.names, l.block = r.Workspace, targetNames{}, nil
		}
		if l.block = append(l.block, r.Summary()); r.Seq%blockSize == 0 {
			l.add(indexBlock(l.block, l.names))
			l.block = l.block[:0]
		}
	}
	return nil
}

// Write copies the rows.
func (l *auditLoader) Write(ctx context.Context, tx pgx.Tx) error { return l.copy(ctx, tx, l.table) }

// A segment collects the rows of blocks until they are copied.
type segment struct {
	rows  []auditRow
	known map[string]int // position in rows, by workspace and entry
}

func newSegment() *segment { return &segment{known: map[string]int{}} }

func (s *segment) add(rows []auditRow) {
	for _, r := range rows {
		key := string(r.Workspace[:]) + string(r.Entry)
		if i, ok := s.known[key]; ok {
			s.rows[i].Data = append(s.rows[i].Data, r.Data...)
			continue
		}
		s.known[key] = len(s.rows)
		s.rows = append(s.rows, r)
	}
}

func (s *segment) copy(ctx context.Context, tx pgx.Tx, table string) error {
	if len(s.rows) == 0 {
		return nil
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{table}, []string{"workspace_id", "entry", "data"},
		pgx.CopyFromSlice(len(s.rows), func(i int) ([]any, error) {
			return []any{s.rows[i].Workspace, s.rows[i].Entry, s.rows[i].Data}, nil
		}))
	if err != nil {
		return fmt.Errorf("copy into %s: %w", table, err)
	}
	return nil
}

// maxNameLength is the maximal length in characters of a name in the index. Names from outside, such as
// those of repositories, may have no limit.
const maxNameLength = 256

func clip(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if runes := []rune(s); len(runes) > maxNameLength {
		return string(runes[:maxNameLength])
	}
	return s
}
