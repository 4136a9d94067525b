package proof

import (
	"iter"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

// A tile has the hashes of 256 events, in the layout of C2SP's tlog-tiles. Once a tile is full, the
// hashes below its root at height 8 are not stored, as they can be recomputed.
const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
)

// A storedHash is a hash of the Merkle log with its index in tlog's order.
type storedHash struct {
	index int64
	hash  tlog.Hash
}

// An openTile collects the hashes of consecutive events until their tile is full.
type openTile struct {
	workspace events.ID
	begin     int64        // index of the first event, from 0
	leaves    []byte       // hashes of the events
	hashes    []storedHash // the same, and the hashes of subtrees they complete
}

// add adds the hashes of event n, counted from 0: its own, and those of the subtrees it completes.
func (o *openTile) add(n int64, hashes []tlog.Hash) {
	o.leaves = append(o.leaves, hashes[0][:]...)
	index := tlog.StoredHashIndex(0, n)
	for level, h := range hashes {
		o.hashes = append(o.hashes, storedHash{index + int64(level), h})
	}
}

// close returns the full tile. The hashes from its root up remain in hashes.
func (o *openTile) close() tile {
	number := o.begin / tileWidth
	t := tile{workspace: o.workspace, number: number, leaves: o.leaves}
	for n := number * tileWidth; n < o.begin; n++ {
		t.stored = append(t.stored, tlog.StoredHashIndex(0, n))
	}
	root := tlog.StoredHashIndex(tileHeight, number)
	for len(o.hashes) > 0 && o.hashes[0].index < root {
		o.hashes = o.hashes[1:]
	}
	return t
}

// A tile is a full tile. The hashes of its first events may be stored in table proof_hashes.
type tile struct {
	workspace events.ID
	number    int64
	stored    []int64 // indexes of those hashes
	leaves    []byte  // hashes of the other events
}

// queue queues replacing the stored hashes of the tile's events by the tile.
func (t *tile) queue(b *pgx.Batch) {
	b.Queue(`
		with gone as (
			delete from proof_hashes where workspace_id = $1 and index >= $2 and index < $3 returning index, hash
		)
		insert into proof_tiles (workspace_id, number, hashes)
		select $1, $4, coalesce((select string_agg(hash, ''::bytea order by index) from gone where index = any($5)), '') || $6::bytea`,
		t.workspace, tlog.StoredHashIndex(0, t.number*tileWidth), tlog.StoredHashIndex(tileHeight, t.number), t.number, t.stored, t.leaves)
}

// indexesOf returns the indexes of a tile's hashes.
func indexesOf(t tlog.Tile) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for n := t.N * tileWidth; n < t.N*tileWidth+int64(t.W); n++ {
			if !yield(tlog.StoredHashIndex(t.L*tileHeight, n)) {
				return
			}
		}
	}
}
