package proof

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
	"svc/fault"
)

// checkAuthor returns an error if an event to be signed was appended by somebody without the vault
// key. No event after it is signed either.
func (p *Prover) checkAuthor(e *eventRow) error {
	if p.acceptAny {
		return nil
	}
	if e.misplaced {
		return fmt.Errorf("event %d %w: it is not the next event of its stream; it is not signed", e.Seq, store.ErrForeign)
	}
	err := store.CheckEventMAC(p.secrets.Ring, e.Workspace, e.ID, e.Stream, e.Version, e.Schema, e.Kind, e.Meta, e.Data, e.MAC)
	if err != nil {
		return fmt.Errorf("event %d %w; it is not signed: %w", e.Seq, store.ErrForeign, err)
	}
	return nil
}

// markMisplaced marks the events whose version an earlier event of the stream has, or that follow none. The MAC does
// not cover the position in the log: without this check, a genuine event could be copied to its end by whoever
// can drop the unique key.
func markMisplaced(ctx context.Context, db store.Querier, list []eventRow) error {
	var workspaces, streams []events.ID
	var versions, seqs []int64
	for _, e := range list {
		workspaces, streams = append(workspaces, e.Workspace), append(streams, e.Stream)
		versions, seqs = append(versions, e.Version), append(seqs, e.Seq)
	}
	rows, _ := db.Query(ctx, `
		select i, seq > (select min(e.seq) from (select seq from events e
				where (e.workspace_id, e.stream, e.version) = (k.log, k.stream, k.version) offset 0) e)
			or version > 1 and coalesce(seq < (select min(e.seq) from (select seq from events e
				where (e.workspace_id, e.stream, e.version) = (k.log, k.stream, k.version - 1) offset 0) e), true)
		from unnest((select $1::uuid[]), (select $2::uuid[]), (select $3::bigint[]), (select $4::bigint[]))
			with ordinality as k (log, stream, version, seq, i)`, workspaces, streams, versions, seqs)
	var i int64
	var misplaced bool
	_, err := pgx.ForEachRow(rows, []any{&i, &misplaced}, func() error { list[i-1].misplaced = misplaced; return nil })
	return fault.Wrap(err, "look for misplaced events")
}

// reportAuthor reports the first unsigned event that will not be signed because of its author.
func (p *Prover) reportAuthor(ctx context.Context, report *Report) error {
	if report.Bad != nil && report.Bad.Seq <= report.Size || report.Unsigned == 0 {
		return nil
	}
	for after := report.Size; after < report.Head; {
		list, err := readPage(ctx, p.db, report.Workspace, after, report.Head)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := markMisplaced(ctx, p.db, list); err != nil {
			return err
		}
		for _, e := range list {
			if report.Bad != nil && report.Bad.Seq < e.Seq {
				return nil
			}
			if p.checkAuthor(&e) != nil {
				report.Bad = &Bad{e.Seq, "the record was not appended by this service"}
				return nil
			}
			after = e.Seq
		}
	}
	return nil
}
