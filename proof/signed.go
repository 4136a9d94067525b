package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
	"svc/events/store"
	"svc/fault"
)

// CheckSigned returns an error that wraps [store.ErrForeign] unless records, which are of one log, are as the
// service has signed them. It reads only the tiles with their hashes, and those that connect them to the newest
// checkpoint.
func (p *Prover) CheckSigned(ctx context.Context, records []events.Record) error {
	workspace := records[0].Workspace
	var text string
	err := p.db.QueryRow(ctx, `select note from proof_checkpoints where workspace_id = $1 order by size desc limit 1`, workspace).Scan(&text)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("event %d %w, and its log is not signed", records[0].Seq, store.ErrForeign)
	case err != nil:
		return fmt.Errorf("read the newest checkpoint of %s: %w", workspace, err)
	}
	k, err := p.signingKey(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	c, err := openCheckpoint(text, k.verifier, workspace)
	if err != nil {
		return fmt.Errorf("log %s %w: its newest checkpoint: %w", workspace, store.ErrForeign, err)
	}
	var indexes []int64
	for i := range records {
		if seq := records[i].Seq; seq < 1 || seq > c.Size {
			return fmt.Errorf("event %d %w, and is not signed", seq, store.ErrForeign)
		}
		indexes = append(indexes, tlog.StoredHashIndex(0, records[i].Seq-1))
	}
	tiles := &tileReader{ctx: ctx, db: p.db, workspace: workspace}
	hashes, err := tlog.TileHashReader(tlog.Tree{N: c.Size, Hash: c.Root}, tiles).ReadHashes(indexes)
	switch {
	case tiles.failed != nil:
		return fmt.Errorf("read hashes of %s: %w", workspace, tiles.failed)
	case err != nil:
		return fmt.Errorf("log %s %w: the stored hashes are not those that were signed: %w", workspace, store.ErrForeign, err)
	}
	for i := range records {
		if tlog.RecordHash(Leaf(&records[i])) != hashes[i] {
			return fmt.Errorf("event %d %w: it is not as it was signed", records[i].Seq, store.ErrForeign)
		}
	}
	return nil
}

// A tileReader reads tiles for tlog, which verifies them.
type tileReader struct {
	ctx       context.Context
	db        *pgxpool.Pool
	workspace events.ID
	failed    error // of the database
}

// Height implements [tlog.TileReader].
func (*tileReader) Height() int { return tileHeight }

// SaveTiles implements [tlog.TileReader].
func (*tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadTiles implements [tlog.TileReader]. What is missing is left out, which tlog reports. Hashes are read before
// full tiles: those of a tile that becomes full in between are found as either.
func (r *tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var indexes, numbers []int64
	for _, t := range tiles {
		if t.L == 0 {
			numbers = append(numbers, t.N)
		}
		if t.L > 0 || t.W < tileWidth {
			indexes = slices.AppendSeq(indexes, indexesOf(t))
		}
	}
	single, full := map[int64][]byte{}, map[int64][]byte{}
	var key int64
	var value []byte
	b := &pgx.Batch{}
	into := func(m map[int64][]byte) func(pgx.Rows) error {
		return func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&key, &value}, func() error { m[key] = value; return nil })
			return err
		}
	}
	b.Queue(`select index, hash from proof_hashes where workspace_id = $1 and index = any($2)`, r.workspace, indexes).Query(into(single))
	b.Queue(`select number, hashes from proof_tiles where workspace_id = $1 and number = any($2) and octet_length(hashes) <= $3`,
		r.workspace, numbers, tileWidth*tlog.HashSize).Query(into(full))
	if r.failed = r.db.SendBatch(r.ctx, b).Close(); r.failed != nil {
		return nil, r.failed
	}
	list := make([][]byte, len(tiles))
	for i, t := range tiles {
		if hashes := full[t.N]; t.L == 0 && hashes != nil {
			list[i] = hashes[:min(t.W*tlog.HashSize, len(hashes))]
			continue
		}
		for index := range indexesOf(t) {
			list[i] = append(list[i], single[index]...)
		}
	}
	return list, nil
}
