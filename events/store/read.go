package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
)

// A Querier is a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A Decoding says what a reader makes of stored events.
type Decoding int

// The ways to decode.
const (
	Strict  Decoding = iota // an event that cannot be decoded is an error
	Lenient                 // an event that cannot be decoded is an [events.Undecoded]
	Known                   // Lenient, but an event of a kind or schema that this build does not know is an error
	Stored                  // nothing is decoded: each event is an [events.Undecoded]
)

func (d Decoding) scanner() pgx.RowToFunc[events.Record] {
	switch d {
	case Lenient:
		return Scan
	case Known:
		return ScanKnown
	case Stored:
		return scanStored
	default:
		return scanStrict
	}
}

// A Position is a position in a log: after the event of that number.
type Position struct {
	Workspace events.ID
	Seq       int64
}

// After returns the position after event seq of one log, as the Logs of a [Page].
func After(workspace events.ID, seq int64) []Position { return []Position{{workspace, seq}} }

// Columns returns the workspaces and the numbers of positions.
func Columns(list []Position) (workspaces []events.ID, seqs []int64) {
	for _, p := range list {
		workspaces, seqs = append(workspaces, p.Workspace), append(seqs, p.Seq)
	}
	return workspaces, seqs
}

// A Page is the next events of one or more logs, one log after the other.
type Page struct {
	Logs   []Position // the page begins after these; each log may appear once
	Limit  int        // the most events of each log, which also share [PageBytes] in equal parts
	Decode Decoding

	// Kinds lists the kinds to read, and nouns that stand for all their kinds; nil reads all. The data
	// of other events is not read: each is an [events.Undecoded]. It requires Decode to be Strict.
	Kinds []string
}

const (
	selectEvents = `select ` + EventColumns + ` from events`
	selectWanted = `
		select workspace_id, seq, id, stream, version, kind, schema, at,
			case when wanted then meta end as meta, case when wanted then data end as data
		from events cross join lateral (select kind = any($5) or split_part(kind, '.', 1) = any($5) as wanted) n`
)

// Read reads the page. It reports an error if an event is missing.
func (p Page) Read(ctx context.Context, db Querier) ([]events.Record, error) {
	records, err := p.query(ctx, db)
	if err == nil {
		err = p.checkContiguous(records)
	}
	switch {
	case err == nil:
		return records, nil
	case len(p.Logs) == 1:
		return nil, fmt.Errorf("read log %s after %d: %w", p.Logs[0].Workspace, p.Logs[0].Seq, err)
	default:
		return nil, fmt.Errorf("read %d logs: %w", len(p.Logs), err)
	}
}

func (p Page) query(ctx context.Context, db Querier) ([]events.Record, error) {
	workspaces, seqs := Columns(p.Logs)
	from, scan, args := selectEvents, p.Decode.scanner(), []any{workspaces, seqs, p.Limit, BytesOfEach(len(p.Logs))}
	if p.Kinds != nil {
		from, scan, args = selectWanted, scanStrictIfPresent, append(args, p.Kinds)
	}
	rows, _ := db.Query(ctx, `
		select `+EventColumns+`
		from unnest((select $1::uuid[]), (select $2::bigint[])) with ordinality as p (log, behind, ord) cross join lateral (`+
		WithinBytes(from+` where workspace_id = log and seq > behind order by seq limit $3`, EventColumns, `$4::bigint`)+`
		) e order by ord, seq`, args...)
	return pgx.CollectRows(rows, scan) // reports errors of Query as well
}

func (p Page) checkContiguous(records []events.Record) error {
	last := map[events.ID]int64{}
	for _, at := range p.Logs {
		last[at.Workspace] = at.Seq
	}
	for _, r := range records {
		if want := last[r.Workspace] + 1; r.Seq != want {
			return fmt.Errorf("log %s: event %d is missing, found %d in its place", r.Workspace, want, r.Seq)
		}
		last[r.Workspace] = r.Seq
	}
	return nil
}

// Ends returns the positions after the page without reading its events; PageBytes does not limit it.
// Logs that have nothing new are left out. It reports an error if an event is missing.
func (p Page) Ends(ctx context.Context, db Querier) (ends []Position, err error) {
	workspaces, seqs := Columns(p.Logs)
	rows, _ := db.Query(ctx, `
		select log, last, last = behind + n from unnest((select $1::uuid[]), (select $2::bigint[])) as p (log, behind) cross join lateral (
			select count(*) as n, max(seq) as last from (
				select seq from events where workspace_id = log and seq > behind order by seq limit $3) e) e
		where n > 0`, workspaces, seqs, p.Limit)
	var end Position
	var whole bool
	var broken []events.ID
	_, err = pgx.ForEachRow(rows, []any{&end.Workspace, &end.Seq, &whole}, func() error {
		if ends = append(ends, end); !whole {
			broken = append(broken, end.Workspace)
		}
		return nil
	})
	for _, at := range p.Logs {
		if err == nil && slices.Contains(broken, at.Workspace) {
			err = findMissing(ctx, db, at)
		}
	}
	return ends, fault.Wrap(err, "read where logs end")
}

// findMissing returns an error that names the first missing event after a position, or nil if none is missing.
func findMissing(ctx context.Context, db Querier, at Position) error {
	for {
		list, err := Page{Logs: []Position{at}, Limit: events.LoadLimit, Decode: Stored}.Read(ctx, db)
		if err != nil || len(list) == 0 {
			return err
		}
		at.Seq = list[len(list)-1].Seq
	}
}

// A StreamPage is up to Limit records of one stream that follow Version, oldest first, or with
// Backward those that precede it, newest first. Nobody checks that this service appended them: they are for display.
// What decides anything reads them with [Store.Load] or [Store.First].
type StreamPage struct {
	Workspace, Stream events.ID
	Version, Limit    int
	Backward          bool
	Decode            Decoding
}

const (
	streamAfterSQL = `
		select ` + EventColumns + ` from events
		where workspace_id = $1 and stream = $2 and version > $3 order by version limit $4`
	streamBeforeSQL = `
		select ` + EventColumns + ` from events
		where workspace_id = $1 and stream = $2 and version < $3 order by version desc limit $4`
)

// Read reads the page.
func (p StreamPage) Read(ctx context.Context, db Querier) ([]events.Record, error) {
	sql := streamAfterSQL
	if p.Backward {
		sql = streamBeforeSQL
	}
	rows, _ := db.Query(ctx, sql, p.Workspace, p.Stream, p.Version, p.Limit)
	list, err := pgx.CollectRows(rows, p.Decode.scanner()) // reports errors of Query as well
	return list, fault.Wrap(err, "read stream %s at %d", p.Stream, p.Version)
}
