package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

// Moved tells p that a log has grown, or any if workspace is zero. It does not block.
func (p *Prover) Moved(workspace events.ID, _ int64) {
	p.mu.Lock()
	p.dirty[workspace] = true
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Run follows the logs until ctx ends. A workspace that cannot be followed,
// because what is stored is not what was signed, stands still and loudly so;
// the others go on.
func (p *Prover) Run(ctx context.Context) {
	stuck := map[events.ID]stand{}
	look := time.NewTicker(poll)
	defer look.Stop()
	for first := true; ctx.Err() == nil; first = false {
		if !first {
			select {
			case <-ctx.Done():
				return
			case <-p.wake:
			case <-look.C:
			}
		}
		if !p.leads(View) {
			p.take()
			continue
		}
		if err := p.round(ctx, stuck); err != nil && ctx.Err() == nil {
			p.log.ErrorContext(ctx, "checkpoints stand still", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(10 * poll): // the database is away, or its key: all wait
			}
		}
	}
}

// A stand says how long a workspace that could not be followed is left alone.
type stand struct {
	rest  time.Duration
	until time.Time
}

// round follows every workspace that is behind.
func (p *Prover) round(ctx context.Context, stuck map[events.ID]stand) error {
	list, err := p.behind(ctx)
	if err != nil || len(list) == 0 {
		return err
	}
	k, err := p.signingKey(ctx)
	if err != nil {
		return err
	}
	for _, workspace := range list {
		if time.Now().Before(stuck[workspace].until) {
			continue
		}
		err := p.catchUp(ctx, k, workspace)
		switch {
		case err == nil:
			delete(stuck, workspace)
		case ctx.Err() == nil:
			after := min(max(2*stuck[workspace].rest, rest), restMost)
			stuck[workspace] = stand{after, time.Now().Add(after)}
			p.log.ErrorContext(ctx, "Merkle log stands still", "workspace", workspace, "again_in", after, "err", err)
		}
	}
	return nil
}

// take returns the workspaces that p was told of.
func (p *Prover) take() (list []events.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for workspace := range p.dirty {
		list = append(list, workspace)
	}
	clear(p.dirty)
	return list
}

// behind returns the workspaces that moved: those that p was told of, or else
// those that it finds.
func (p *Prover) behind(ctx context.Context) (list []events.ID, err error) {
	if list = p.take(); len(list) > 0 && !slices.Contains(list, events.ID{}) {
		return list, nil
	}
	rows, _ := p.db.Query(ctx, `
		select l.workspace_id from logs l
		left join checkpoints c on c.workspace_id = l.workspace_id and c.view = $1
		where l.head > coalesce(c.seq, 0)`, View)
	if list, err = pgx.CollectRows(rows, pgx.RowTo[events.ID]); err != nil {
		return nil, fmt.Errorf("find workspaces that moved: %w", err)
	}
	return list, nil
}

func (p *Prover) catchUp(ctx context.Context, k *key, workspace events.ID) error {
	for ctx.Err() == nil {
		n, err := p.takePage(ctx, k, workspace)
		if err != nil {
			return fmt.Errorf("prove %s: %w", workspace, err)
		}
		if n < page {
			return nil
		}
	}
	return ctx.Err()
}

// takePage hashes the next events of a log and signs where that leads. The row
// of its position lets one process at a time do so.
func (p *Prover) takePage(ctx context.Context, k *key, workspace events.ID) (n int, err error) {
	err = pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		var size, head int64
		err := tx.QueryRow(ctx, `
			insert into checkpoints (workspace_id, view, seq) values ($1, $2, 0)
			on conflict (workspace_id, view) do update set seq = checkpoints.seq
			returning seq, coalesce((select head from logs where workspace_id = $1), 0)`, workspace, View).Scan(&size, &head)
		if err != nil {
			return fmt.Errorf("position: %w", err)
		}
		records, err := read(ctx, tx, workspace, size, head) // what lies beyond the head is nobody's
		if err != nil || len(records) == 0 {
			return err
		}
		t, err := load(ctx, tx, k, workspace, size)
		if err != nil {
			return err
		}
		n = len(records)
		return p.extend(ctx, tx, k, t, records)
	})
	return n, err
}

// extend adds records to a log and writes what that comes to.
func (p *Prover) extend(ctx context.Context, tx pgx.Tx, k *key, t *tree, records []stored) error {
	workspace, before := records[0].Workspace, t.size
	first := tlog.StoredHashCount(before)
	var hashes [][]byte
	for _, r := range records {
		if r.Seq != t.size+1 {
			return fmt.Errorf("event %d is missing, found %d in its place", t.size+1, r.Seq)
		}
		for _, h := range t.add(r.hash()) {
			hashes = append(hashes, h[:])
		}
	}
	c := checkpoint{Origin: p.host + "/" + workspace.String(), Size: t.size, Root: t.root()}
	signed, err := note.Sign(&note.Note{Text: c.text()}, k.signer)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	b := &pgx.Batch{}
	b.Queue(`
		insert into proof_hashes (workspace_id, index, hash)
		select $1, $2::bigint + ord - 1, hash from unnest($3::bytea[]) with ordinality as h (hash, ord)`, workspace, first, hashes)
	b.Queue(`insert into proof_checkpoints (workspace_id, size, note, made_at) values ($1, $2, $3, now())`, workspace, c.Size, string(signed))
	if before/keepEvery == c.Size/keepEvery {
		b.Queue(`delete from proof_checkpoints where workspace_id = $1 and size = $2`, workspace, before)
	}
	b.Queue(`update checkpoints set seq = $3 where workspace_id = $1 and view = $2`, workspace, View, c.Size)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write hashes: %w", err)
	}
	return nil
}

// errNotSigned says that the log must not go on from here: to sign for what
// was changed would hide it.
var errNotSigned = errors.New("the stored hashes are not those of the newest checkpoint; svc-db verify names the first bad record")

// load reads the edge of a log and holds it against the newest checkpoint.
func load(ctx context.Context, tx pgx.Tx, k *key, workspace events.ID, size int64) (*tree, error) {
	t := &tree{size: size}
	rows, _ := tx.Query(ctx, `
		select h.hash from unnest($2::bigint[]) with ordinality as i (index, ord)
		join proof_hashes h on h.workspace_id = $1 and h.index = i.index order by i.ord`, workspace, edgeIndexes(size))
	edge, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("read hashes: %w", err)
	}
	for _, hash := range edge {
		if len(hash) != tlog.HashSize {
			return nil, errNotSigned
		}
		t.edge = append(t.edge, tlog.Hash(hash))
	}
	var text string
	err = tx.QueryRow(ctx, `select note from proof_checkpoints where workspace_id = $1 order by size desc limit 1`, workspace).Scan(&text)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && size == 0:
		return t, nil
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errNotSigned
	case err != nil:
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	c, err := openCheckpoint(text, k.verifier, workspace)
	if err != nil || c.Size != size || len(t.edge) != len(edgeIndexes(size)) || c.Root != t.root() {
		return nil, errors.Join(errNotSigned, err)
	}
	return t, nil
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
