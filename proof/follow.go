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
)

// Moved tells p that a log has grown, or any if workspace is zero. It does not block.
func (p *Prover) Moved(workspace events.ID, _ int64) { p.follow.Moved(workspace) }

// Stuck returns in how many logs p stands still.
func (p *Prover) Stuck() int { return p.follow.Stuck() }

// Run follows the logs until ctx ends. A workspace that cannot be followed,
// because what is stored is not what was signed, stands still and loudly so;
// the others go on. Then it signs for what is left, for nothing is to stay
// unsigned while the service is stopped.
func (p *Prover) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { p.overdue.run(ctx) })
	p.follow.Run(ctx, p.takePage)
	group.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishLimit)
	defer cancel()
	p.follow.Finish(ctx, p.takePage)
}

// finishLimit is how long a service that ends may take to sign for what is left.
const finishLimit = 5 * time.Second

// takePage hashes the next events of logs and signs where that leads.
func (p *Prover) takePage(ctx context.Context, workspaces []events.ID) (more []events.ID, err error) {
	k, err := p.signingKey(ctx)
	if err != nil {
		return nil, err
	}
	limit := max(page/len(workspaces), 1)
	err = pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		list, err := follow.LockCheckpoints(ctx, tx, View, workspaces)
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
		var w written
		for _, t := range trees {
			if n := len(records[t.workspace]); n == limit {
				more = append(more, t.workspace)
			}
			if err := p.extend(&w, k, t, records[t.workspace]); err != nil {
				return fmt.Errorf("prove %s: %w", t.workspace, err)
			}
		}
		b := &pgx.Batch{}
		w.queue(b)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("write hashes: %w", err)
		}
		return nil
	})
	return more, err
}

// written is what a page comes to, by columns.
type written struct {
	hashes struct {
		workspaces []events.ID
		indexes    []int64
		hashes     [][]byte
	}
	tiles    []tile
	ends     []store.Position // of the logs, with a checkpoint each
	notes    []string
	replaced []store.Position // checkpoints that make room for those
}

func (w *written) queue(b *pgx.Batch) {
	for _, t := range w.tiles {
		t.queue(b)
	}
	b.Queue(`insert into proof_hashes (workspace_id, index, hash) select * from unnest($1::uuid[], $2::bigint[], $3::bytea[])`,
		w.hashes.workspaces, w.hashes.indexes, w.hashes.hashes)
	workspaces, sizes := store.Columns(w.ends)
	b.Queue(`insert into proof_checkpoints (workspace_id, size, note, made_at) select w, s, n, now() from unnest($1::uuid[], $2::bigint[], $3::text[]) as c (w, s, n)`,
		workspaces, sizes, w.notes)
	workspaces, sizes = store.Columns(w.replaced)
	b.Queue(`
		delete from proof_checkpoints c using unnest($1::uuid[], $2::bigint[]) as r (workspace_id, size)
		where c.workspace_id = r.workspace_id and c.size = r.size`, workspaces, sizes)
	follow.QueueMove(b, View, w.ends)
}

// keep adds hashes to what is written.
func (w *written) keep(workspace events.ID, list []storedHash) {
	for _, h := range list {
		w.hashes.workspaces, w.hashes.indexes = append(w.hashes.workspaces, workspace), append(w.hashes.indexes, h.index)
		w.hashes.hashes = append(w.hashes.hashes, h.hash[:])
	}
}

// extend adds records to a log, and what that comes to to w.
func (p *Prover) extend(w *written, k *key, t *tree, records []stored) error {
	if len(records) == 0 {
		return nil
	}
	before := t.size
	open := openTile{workspace: t.workspace, begin: before}
	for i, r := range records {
		if r.Seq != t.size+1 {
			return fmt.Errorf("event %d is missing, found %d in its place", t.size+1, r.Seq)
		}
		if err := p.checkAuthor(t, &r); err != nil {
			if i == 0 {
				return err
			}
			break // what comes before is signed for
		}
		n := t.size
		if open.add(n, t.add(r.hash())); t.size%tileWidth == 0 {
			w.tiles = append(w.tiles, open.close())
			w.keep(t.workspace, open.hashes)
			open = openTile{workspace: t.workspace, begin: t.size}
		}
	}
	w.keep(t.workspace, open.hashes)
	c := checkpoint{Origin: p.host + "/" + t.workspace.String(), Size: t.size, Root: t.root(), Authenticated: t.authenticated}
	text, err := note.Sign(&note.Note{Text: c.text()}, k.signer)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	w.ends, w.notes = append(w.ends, store.Position{Workspace: t.workspace, Seq: t.size}), append(w.notes, string(text))
	if before/keepEvery == c.Size/keepEvery {
		w.replaced = append(w.replaced, store.Position{Workspace: t.workspace, Seq: before})
	}
	p.own.Add(t.workspace, ownNote{c, string(text)})
	return nil
}

// errNotSigned says that the log must not go on from here: to sign for what
// was changed would hide it.
var errNotSigned = errors.New("the stored hashes are not those of the newest checkpoint; svc-db verify names the first bad record")

// load reads the edges of logs and holds them against the newest checkpoints.
func (p *Prover) load(ctx context.Context, tx pgx.Tx, k *key, list []store.Position) (trees []*tree, err error) {
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
		cross join lateral (select hash from proof_hashes p where p.workspace_id = i.workspace_id and p.index = i.index offset 0) h order by ord`, workspaces, indexes).Query(func(rows pgx.Rows) error {
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
		if err := p.isSigned(t, k, notes[t.workspace]); err != nil {
			return nil, fmt.Errorf("prove %s: %w", t.workspace, err)
		}
	}
	return trees, nil
}

// isSigned holds a tree against its newest checkpoint, "" if there is none. A
// signature that this process made itself need not be verified.
func (p *Prover) isSigned(t *tree, k *key, text string) error {
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
	t.authenticated = c.Authenticated
	return nil
}

// A querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// read returns a page of the events after a number, up to another.
func read(ctx context.Context, db querier, workspace events.ID, after, upTo int64) ([]stored, error) {
	rows, _ := db.Query(ctx, `
		select `+storedColumns+` from events
		where workspace_id = $1 and seq > $2 and seq <= $3
		order by seq limit $4`, workspace, after, upTo, page)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	if err != nil {
		return nil, fmt.Errorf("read events after %d: %w", after, err)
	}
	return list, nil
}

// readEach returns the next events of logs, up to limit of each. What lies
// beyond the head of a log is nobody's.
func readEach(ctx context.Context, tx pgx.Tx, list []store.Position, limit int) (map[events.ID][]stored, error) {
	workspaces, seqs := store.Columns(list)
	rows, _ := tx.Query(ctx, `
		select e.* from unnest((select $1::uuid[]), (select $2::bigint[])) as p (log, behind)
		cross join lateral (select head from logs where workspace_id = log offset 0) l
		cross join lateral (
			select `+storedColumns+` from events where workspace_id = log and seq > behind and seq <= l.head order by seq limit $3
		) e order by log, seq`, workspaces, seqs, limit)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	records := map[events.ID][]stored{}
	for _, r := range all {
		records[r.Workspace] = append(records[r.Workspace], r)
	}
	return records, nil
}
