package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// A Range is the events of a log after From, up to and including To.
type Range struct {
	Workspace events.ID
	From, To  int64
}

// Ranges reads the events of one or more ranges without those of some kinds, which PostgreSQL leaves
// out. It suits a reader that goes through whole logs and wants a small part of them.
type Ranges struct {
	Logs   []Range  // each log may appear once
	Skip   []string // kinds to leave out, of those in [events.Kinds]
	Decode Decoding
}

// Read returns events and the positions up to which it has read. The positions are the ends of the
// ranges, unless their events exceed [PageBytes], which the ranges share in equal parts. Events that
// belong to unknown kinds are never left out. Read reports an error if an event is missing.
func (r Ranges) Read(ctx context.Context, db Querier) (list []events.Record, ends []Position, err error) {
	if list, err = r.read(ctx, db); err == nil && len(r.Skip) > 0 {
		err = r.checkComplete(ctx, db)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read ranges of %d logs: %w", len(r.Logs), err)
	}
	at := map[events.ID]int64{}
	for _, workspace := range LogsWithMore(list, len(r.Logs), len(list)+1) { // full by bytes
		at[workspace] = 0
	}
	for _, e := range list {
		if _, cut := at[e.Workspace]; cut {
			at[e.Workspace] = e.Seq
		}
	}
	for _, l := range r.Logs {
		end := l.To
		if seq, cut := at[l.Workspace]; cut {
			end = seq
		}
		ends = append(ends, Position{l.Workspace, end})
	}
	if len(r.Skip) == 0 {
		if err := r.checkContiguous(list, ends); err != nil {
			return nil, nil, err
		}
	}
	return list, ends, nil
}

// checkContiguous reports an error if an event is missing before the ends.
func (r Ranges) checkContiguous(list []events.Record, ends []Position) error {
	for i, l := range r.Logs {
		at := l.From
		for ; len(list) > 0 && list[0].Workspace == l.Workspace && list[0].Seq == at+1; list = list[1:] {
			at++
		}
		if at < ends[i].Seq {
			return fmt.Errorf("read ranges of %d logs: log %s: event %d is missing", len(r.Logs), l.Workspace, at+1)
		}
	}
	return nil
}

func (r Ranges) columns() (workspaces []events.ID, from, to []int64) {
	for _, l := range r.Logs {
		workspaces, from, to = append(workspaces, l.Workspace), append(from, l.From), append(to, l.To)
	}
	return workspaces, from, to
}

func (r Ranges) read(ctx context.Context, db Querier) ([]events.Record, error) {
	workspaces, from, to := r.columns()
	// PostgreSQL looks a kind up in a hash table if the list is a constant. Otherwise it goes through
	// the list for each event.
	wanted := selectEvents + ` where workspace_id = log and seq > behind and seq <= upto
		and kind <> all('{` + strings.Join(r.Skip, ",") + `}') order by seq`
	rows, _ := db.Query(ctx, `
		select `+EventColumns+`
		from unnest((select $1::uuid[]), (select $2::bigint[]), (select $3::bigint[])) with ordinality as p (log, behind, upto, ord)
		cross join lateral (`+WithinBytes(wanted, EventColumns, `$4::bigint`)+`) e order by ord, seq`,
		workspaces, from, to, BytesOfEach(len(r.Logs)))
	return pgx.CollectRows(rows, r.Decode.scanner()) // reports errors of Query as well
}

func (r Ranges) checkComplete(ctx context.Context, db Querier) error {
	workspaces, from, to := r.columns()
	rows, _ := db.Query(ctx, `
		select log from unnest((select $1::uuid[]), (select $2::bigint[]), (select $3::bigint[])) as p (log, behind, upto)
		cross join lateral (
			select count(*) as n from events where workspace_id = log and seq > behind and seq <= upto) e
		where n <> upto - behind`, workspaces, from, to)
	broken, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err == nil && len(broken) > 0 {
		err = fmt.Errorf("log %s: events are missing", broken[0])
	}
	return err
}
