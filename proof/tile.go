package proof

import (
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

// A tile has the hashes of 256 events, as C2SP's tlog-tiles lay them out. Those
// below its root, which is at height 8, follow from them and are not kept once
// the tile is full.
const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
)

// A storedHash is one of the Merkle log, where tlog puts it.
type storedHash struct {
	index int64
	hash  tlog.Hash
}

// An openTile gathers hashes of events that follow each other, until their tile
// is full.
type openTile struct {
	workspace events.ID
	begin     int64        // the first of these events, from 0
	leaves    []byte       // their hashes
	hashes    []storedHash // these, and what they complete
}

// add takes in the hashes that are stored for the event n, from 0: its own, and
// those that it completes.
func (o *openTile) add(n int64, hashes []tlog.Hash) {
	o.leaves = append(o.leaves, hashes[0][:]...)
	index := tlog.StoredHashIndex(0, n)
	for level, h := range hashes {
		o.hashes = append(o.hashes, storedHash{index + int64(level), h})
	}
}

// close makes a full tile. The hashes from its root up remain.
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

// A tile is full. Of its hashes the first are stored by themselves.
type tile struct {
	workspace events.ID
	number    int64
	stored    []int64 // where they are
	leaves    []byte  // the others
}

// queue queues putting the tile in the place of what is stored of it.
func (t *tile) queue(b *pgx.Batch) {
	b.Queue(`
		with gone as (
			delete from proof_hashes where workspace_id = $1 and index >= $2 and index < $3 returning index, hash
		)
		insert into proof_tiles (workspace_id, number, hashes)
		select $1, $4, coalesce((select string_agg(hash, ''::bytea order by index) from gone where index = any($5)), '') || $6::bytea`,
		t.workspace, tlog.StoredHashIndex(0, t.number*tileWidth), tlog.StoredHashIndex(tileHeight, t.number), t.number, t.stored, t.leaves)
}
