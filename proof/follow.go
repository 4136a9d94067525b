package proof

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
	"svc/fault"
)

// Moved tells p that a log has grown, or that any log may have if workspace is zero. It does not
// block.
func (p *Prover) Moved(workspace events.ID, _ int64) { p.follow.Moved(workspace) }

// Stuck returns the number of logs in which p is stuck.
func (p *Prover) Stuck() int { return p.follow.Stuck() }

// Run follows the logs until ctx ends. If the stored hashes of a log do not match its checkpoint,
// that log gets stuck with an error in the service's log; the others go on. Before Run returns, it
// signs what is left, so that nothing stays unsigned while the service is stopped.
func (p *Prover) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { p.overdue.run(ctx) })
	p.follow.Run(ctx, p.takePage)
	group.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	p.follow.Finish(ctx, p.takePage)
}

// finishTimeout is how long Run may take to sign what is left.
const finishTimeout = 5 * time.Second

// takePage hashes and signs the next events of logs.
func (p *Prover) takePage(ctx context.Context, workspaces []events.ID) (more []events.ID, err error) {
	k, err := p.signingKey(ctx)
	if err != nil {
		return nil, err
	}
	limit := max(page/len(workspaces), 1)
	err = pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		list, err := follow.LockCheckpoints(ctx, tx, FollowerName, workspaces)
		if err != nil || len(list) == 0 {
			return err
		}
		trees, err := p.load(ctx, tx, k, list)
		if err != nil {
			return err
		}
		records, err := readEach(ctx, tx, list, limit)
		if err != nil {
			return err
		}
		var w pageWrites
		for _, t := range trees {
			if store.PageFull(len(records[t.workspace]), bytesOf(records[t.workspace]), len(list), limit) {
				more = append(more, t.workspace)
			}
			if err := p.extend(&w, k, t, records[t.workspace]); err != nil {
				return fmt.Errorf("prove %s: %w", t.workspace, err)
			}
		}
		b := &pgx.Batch{}
		w.queue(b)
		return fault.Wrap(tx.SendBatch(ctx, b).Close(), "write hashes")
	})
	return more, err
}

// pageWrites collects the rows that a page writes, by columns.
type pageWrites struct {
	hashes struct {
		workspaces []events.ID
		indexes    []int64
		hashes     [][]byte
	}
	tiles    []tile
	ends     []store.Position // new ends of the logs, one checkpoint each
	notes    []string
	replaced []store.Position // checkpoints that are deleted
}

func (w *pageWrites) queue(b *pgx.Batch) {
	for _, t := range w.tiles {
		t.queue(b)
	}
	b.Queue(`insert into proof_hashes (workspace_id, index, hash) select * from unnest($1::uuid[], $2::bigint[], $3::bytea[])`,
		w.hashes.workspaces, w.hashes.indexes, w.hashes.hashes)
	workspaces, sizes := store.Columns(w.ends)
	b.Queue(`insert into proof_checkpoints (workspace_id, size, note, made_at) select w, s, n, now()
		from unnest($1::uuid[], $2::bigint[], $3::text[]) as c (w, s, n)`,
		workspaces, sizes, w.notes)
	workspaces, sizes = store.Columns(w.replaced)
	b.Queue(`
		delete from proof_checkpoints c using unnest($1::uuid[], $2::bigint[]) as r (workspace_id, size)
		where c.workspace_id = r.workspace_id and c.size = r.size`, workspaces, sizes)
	follow.QueueMove(b, FollowerName, w.ends)
}

// addHashes adds hashes to be written.
func (w *pageWrites) addHashes(workspace events.ID, list []storedHash) {
	for _, h := range list {
		w.hashes.workspaces, w.hashes.indexes = append(w.hashes.workspaces, workspace), append(w.hashes.indexes, h.index)
		w.hashes.hashes = append(w.hashes.hashes, h.hash[:])
	}
}

// extend adds records to a log and their rows to w.
func (p *Prover) extend(w *pageWrites, k *signingKey, t *tree, records []eventRow) error {
	if len(records) == 0 {
		return nil
	}
	before := t.size
	open := openTile{workspace: t.workspace, begin: before}
	for i, r := range records {
		if r.Seq != t.size+1 {
			return fmt.Errorf("event %d is missing, found %d in its place", t.size+1, r.Seq)
		}
		if err := p.checkAuthor(&r); err != nil {
			if i == 0 {
				return err
			}
			break // the records before it are signed
		}
		n := t.size
		if open.add(n, t.add(r.hash())); t.size%tileWidth == 0 {
			w.tiles = append(w.tiles, open.close())
			w.addHashes(t.workspace, open.hashes)
			open = openTile{workspace: t.workspace, begin: t.size}
		}
	}
	w.addHashes(t.workspace, open.hashes)
	c := checkpoint{Origin: p.host + "/" + t.workspace.String(), Size: t.size, Root: t.root()}
	text, err := note.Sign(&note.Note{Text: c.text()}, k.signer)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	w.ends, w.notes = append(w.ends, store.Position{Workspace: t.workspace, Seq: t.size}), append(w.notes, string(text))
	if before/checkpointInterval == c.Size/checkpointInterval {
		w.replaced = append(w.replaced, store.Position{Workspace: t.workspace, Seq: before})
	}
	p.own.Add(t.workspace, ownCheckpoint{c, string(text)})
	return nil
}

// errNotSigned says that the log must not be extended: signing changed records would hide the
// change.
var errNotSigned = errors.New("the stored hashes are not those of the newest checkpoint; svc-db verify names the first bad record")

// load reads the edges of logs and compares them with the newest checkpoints.
func (p *Prover) load(ctx context.Context, tx pgx.Tx, k *signingKey, list []store.Position) (trees []*tree, err error) {
	of := map[events.ID]*tree{}
	var workspaces []events.ID // of each hash
	var indexes []int64
	for _, at := range list {
		t := &tree{workspace: at.Workspace, size: at.Seq}
		trees, of[t.workspace] = append(trees, t), t
		for _, i := range edgeIndexes(t.size) {
			workspaces, indexes = append(workspaces, t.workspace), append(indexes, i)
		}
	}
	all, _ := store.Columns(list)
	notes := map[events.ID]string{}
	b := &pgx.Batch{}
	var workspace events.ID
	var hash []byte
	var text string
	b.Queue(`
		select i.workspace_id, h.hash from unnest((select $1::uuid[]), (select $2::bigint[])) with ordinality as i (workspace_id, index, ord)
		cross join lateral (select hash from proof_hashes p where p.workspace_id = i.workspace_id and p.index = i.index offset 0) h
		order by ord`, workspaces, indexes).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&workspace, &hash}, func() error {
			if len(hash) != tlog.HashSize {
				return fmt.Errorf("prove %s: %w", workspace, errNotSigned)
			}
			of[workspace].edge = append(of[workspace].edge, tlog.Hash(hash))
			return nil
		})
		return err
	})
	b.Queue(`
		select w, note from unnest((select $1::uuid[])) as w cross join lateral (
			select note from proof_checkpoints where workspace_id = w order by size desc limit 1
		) newest`, all).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&workspace, &text}, func() error { notes[workspace] = text; return nil })
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("read hashes: %w", err)
	}
	for _, t := range trees {
		if err := p.checkSigned(t, k, notes[t.workspace]); err != nil {
			return nil, fmt.Errorf("prove %s: %w", t.workspace, err)
		}
	}
	return trees, nil
}

// checkSigned checks that a tree matches its newest checkpoint, which is "" if there is none.
// Checkpoints that this process signed itself are not verified again.
func (p *Prover) checkSigned(t *tree, k *signingKey, text string) error {
	switch {
	case text == "" && t.size == 0:
		return nil
	case text == "":
		return errNotSigned
	}
	own, _ := p.own.Get(t.workspace)
	c, err := own.checkpoint, error(nil)
	if own.text != text {
		c, err = openCheckpoint(text, k.verifier, t.workspace)
	}
	if err != nil || c.Size != t.size || len(t.edge) != len(edgeIndexes(t.size)) || c.Root != t.root() {
		return errors.Join(errNotSigned, err)
	}
	return nil
}

// bytesOf returns the size of the events' stored data.
func bytesOf(list []eventRow) (n int) {
	for _, e := range list {
		n += len(e.Meta) + len(e.Data)
	}
	return n
}

// readPage returns a page of the events after number after, up to upTo. It is empty only if there
// are none.
func readPage(ctx context.Context, db store.Querier, workspace events.ID, after, upTo int64) ([]eventRow, error) {
	rows, _ := db.Query(ctx, `
`+store.WithinBytes(`
			select `+eventColumns+` from events
			where workspace_id = $1 and seq > $2 and seq <= $3
			order by seq limit $4`, eventColumns, `$5::bigint`)+`
		order by seq`, workspace, after, upTo, page, store.PageBytes)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[eventRow])
	return list, fault.Wrap(err, "read events after %d", after)
}

// readEach returns the next events of logs, up to limit of each, with misplaced ones marked. It ignores events
// beyond the head.
func readEach(ctx context.Context, tx pgx.Tx, list []store.Position, limit int) (map[events.ID][]eventRow, error) {
	workspaces, seqs := store.Columns(list)
	rows, _ := tx.Query(ctx, `
		select e.* from unnest((select $1::uuid[]), (select $2::bigint[])) as p (log, behind)
		cross join lateral (select head from logs where workspace_id = log offset 0) l
		cross join lateral (`+store.WithinBytes(`
			select `+eventColumns+` from events where workspace_id = log and seq > behind and seq <= l.head order by seq limit $3`,
		eventColumns, `$4::bigint`)+`
		) e order by log, seq`, workspaces, seqs, limit, store.BytesOfEach(len(list)))
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[eventRow])
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	if err := markMisplaced(ctx, tx, all); err != nil {
		return nil, err
	}
	records := map[events.ID][]eventRow{}
	for _, r := range all {
		records[r.Workspace] = append(records[r.Workspace], r)
	}
	return records, nil
}
