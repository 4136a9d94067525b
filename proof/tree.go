package proof

import (
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

// A tree is the right edge of a Merkle log: the roots of its complete subtrees, largest first. That
// suffices to extend the log, and is never more than 63 hashes.
type tree struct {
	workspace events.ID
	size      int64
	edge      []tlog.Hash
}

// add appends the hash of a record. It returns the hashes to be stored: that hash, and those of the
// subtrees it completes, lowest first.
func (t *tree) add(leaf tlog.Hash) []tlog.Hash {
	hashes := []tlog.Hash{leaf}
	t.edge = append(t.edge, leaf)
	for n := t.size; n&1 == 1; n >>= 1 { // one bit of the size carries
		last := len(t.edge) - 1
		parent := tlog.NodeHash(t.edge[last-1], t.edge[last])
		t.edge = append(t.edge[:last-1], parent)
		hashes = append(hashes, parent)
	}
	t.size++
	return hashes
}

// root returns the hash of all records; without records, the hash of no bytes.
func (t *tree) root() tlog.Hash {
	if len(t.edge) == 0 {
		root, _ := tlog.TreeHash(0, nil) // reads no hash
		return root
	}
	root := t.edge[len(t.edge)-1]
	for i := len(t.edge) - 2; i >= 0; i-- {
		root = tlog.NodeHash(t.edge[i], root)
	}
	return root
}

// edgeIndexes returns the indexes of the stored hashes that form the edge of a log of the given
// size.
func edgeIndexes(size int64) (list []int64) {
	for done := int64(0); done < size; {
		level := bits.Len64(uint64(size-done)) - 1 // it is above 0
		list = append(list, tlog.StoredHashIndex(level, done>>level))
		done += 1 << level
	}
	return list
}
