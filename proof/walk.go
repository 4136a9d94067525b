package proof

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/mod/sumdb/tlog"

	"svc/fault"
)

// verifySigned verifies the signed events.
func (v *verification) verifySigned(ctx context.Context) error {
	if v.newest == nil {
		v.Root = v.computed.root()
		return nil
	}
	end := v.newest.size
	if v.newest.bad != "" {
		end = min(end, v.Head) // its size cannot be trusted
	}
	for v.computed.size < end && (v.Bad == nil || v.Bad.Seq > v.computed.size) {
		more, err := v.verifyPage(ctx, end)
		if err != nil {
			return err
		}
		if v.Progress(v.computed.size, end); !more {
			break
		}
	}
	v.Root = v.computed.root()
	if v.doubt != nil {
		v.reportBad(v.doubt.Seq, "%s", v.doubt.Reason)
	}
	if v.newest.bad != "" {
		v.reportBad(end, "%s", v.newest.bad)
	}
	return nil
}

// checkUnsigned checks that the unsigned events up to the head exist.
func (v *verification) checkUnsigned(ctx context.Context) error {
	v.Unsigned = max(v.Head-v.Size, 0)
	if v.Unsigned == 0 || v.Bad != nil {
		return nil
	}
	seq, last := int64(0), v.Size
	var at pgtype.Timestamptz // a damaged row may say infinity
	rows, _ := v.db.Query(ctx, `
		select seq, at from events where workspace_id = $1 and seq > $2 and seq <= $3 order by seq`, v.Workspace, v.Size, v.Head)
	_, err := pgx.ForEachRow(rows, []any{&seq, &at}, func() error {
		if seq == v.Size+1 {
			v.UnsignedSince = at.Time.UTC()
		}
		if seq == last+1 {
			last = seq
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read events after %d: %w", v.Size, err)
	}
	if last < v.Head {
		v.reportBad(last+1, "the record is missing")
	}
	return nil
}

// verifyPage verifies the next page of events and reports whether to go on.
func (v *verification) verifyPage(ctx context.Context, end int64) (more bool, err error) {
	records, err := readPage(ctx, v.db, v.Workspace, v.computed.size, end)
	if err != nil {
		return false, err
	}
	hashes, err := v.readStoredHashes(ctx, v.computed.size, min(v.computed.size+page, end))
	if err != nil {
		return false, err
	}
	for _, r := range records {
		if v.next == nil || v.next.size <= v.computed.size {
			if err := v.loadNextCheckpoint(ctx); err != nil {
				return false, err
			}
		}
		if r.Seq != v.computed.size+1 {
			break
		}
		v.addEvent(&r, hashes)
		if v.since != nil && v.since.size == v.computed.size && !v.extendsSince() {
			return false, nil
		}
		if v.computed.size == v.next.size && !v.compareCheckpoint() {
			return false, nil
		}
	}
	if n := len(records); n == 0 || records[n-1].Seq != v.computed.size {
		v.reportBad(v.computed.size+1, "the record is missing")
		return false, nil
	}
	return true, nil
}

// A storedHashes has the stored hashes of some events. Missing and malformed ones are absent.
type storedHashes struct {
	byIndex map[int64]tlog.Hash // by tlog's index
	tiles   map[int64]bool      // the numbers of the full tiles from which some are
}

func (s storedHashes) put(index int64, hash []byte) {
	if len(hash) == tlog.HashSize {
		s.byIndex[index] = tlog.Hash(hash)
	}
}

// readStoredHashes reads the stored hashes of the events after number after, up to upTo.
func (v *verification) readStoredHashes(ctx context.Context, after, upTo int64) (storedHashes, error) {
	hashes := storedHashes{map[int64]tlog.Hash{}, map[int64]bool{}}
	var index, number int64
	var hash, tile []byte
	b := &pgx.Batch{}
	b.Queue(`select index, hash from proof_hashes where workspace_id = $1 and index >= $2 and index < $3`,
		v.Workspace, tlog.StoredHashCount(after), tlog.StoredHashCount(upTo)).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&index, &hash}, func() error { hashes.put(index, hash); return nil })
		return err
	})
	b.Queue(`select number, hashes from proof_tiles where workspace_id = $1 and number >= $2 and number <= $3 and octet_length(hashes) <= $4`,
		v.Workspace, after/tileWidth, (upTo-1)/tileWidth, tileWidth*tlog.HashSize).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&number, &tile}, func() error {
			hashes.tiles[number] = len(tile) == tileWidth*tlog.HashSize
			for n := number * tileWidth; n < (number+1)*tileWidth && len(tile) > 0; n++ {
				end := min(tlog.HashSize, len(tile))
				hashes.put(tlog.StoredHashIndex(0, n), tile[:end])
				tile = tile[end:]
			}
			return nil
		})
		return err
	})
	err := v.db.SendBatch(ctx, b).Close()
	return hashes, fault.Wrap(err, "read hashes")
}

// addEvent adds an event and compares its hashes with the stored ones.
func (v *verification) addEvent(e *eventRow, onDisk storedHashes) {
	n := v.computed.size
	own := e.hash()
	newHashes := v.computed.add(own)
	recordedLeaf := own
	index := tlog.StoredHashIndex(0, n)
	if leaf, ok := onDisk.byIndex[index]; ok {
		recordedLeaf = leaf
	}
	v.recorded.add(recordedLeaf)
	// Full tiles store no hashes between leaves and root. The last tile may have become full meanwhile.
	tiled := n/tileWidth < v.newest.size/tileWidth || onDisk.tiles[n/tileWidth]
	for level, h := range newHashes {
		if v.doubt != nil {
			break
		}
		switch recorded, ok := onDisk.byIndex[index+int64(level)]; {
		case !ok && tiled && level > 0 && level < tileHeight:
		case !ok:
			v.doubt = &Bad{e.Seq, "its stored hash is missing"}
		case recorded != h && level == 0:
			v.doubt, v.leafDiffers = &Bad{e.Seq, "the record or its stored hash was changed"}, true
		case recorded != h:
			v.doubt = &Bad{e.Seq, "a stored hash over it was changed"}
		}
	}
}

// compareCheckpoint compares the log with the checkpoint that it has reached, and reports whether to go on.
func (v *verification) compareCheckpoint() bool {
	switch {
	case v.next.bad != "":
		if v.next.size < v.newest.size {
			v.reportBad(v.next.size, "%s", v.next.bad)
		}
		return v.doubt != nil // a later checkpoint may decide
	case v.computed.root() == v.next.root && v.doubt == nil:
		v.confirmed = v.next.size
		return true
	case v.computed.root() == v.next.root && v.leafDiffers:
		v.doubt.Reason = "its stored hash was changed"
	case v.computed.root() == v.next.root: // doubt says so already
	case v.leafDiffers && v.recorded.root() == v.next.root:
		v.doubt.Reason = "the record was changed"
	case v.doubt == nil:
		v.doubt = &Bad{v.confirmed + 1, fmt.Sprintf("records %d to %d are not those that were signed", v.confirmed+1, v.next.size)}
	}
	return false
}

// extendsSince compares the log with the caller's checkpoint, which it has reached. It returns false if
// that identifies the bad record.
func (v *verification) extendsSince() bool {
	switch {
	case v.computed.root() == v.since.root:
		return true
	case v.leafDiffers && v.recorded.root() == v.since.root:
		v.doubt.Reason = "the record was changed"
		return false
	}
	v.forked = &Bad{1, fmt.Sprintf("records 1 to %d are not those that the kept checkpoint covers", v.since.size)}
	return true
}

// loadNextCheckpoint reads the next checkpoint after the current position.
func (v *verification) loadNextCheckpoint(ctx context.Context) error {
	v.next = v.newest
	var size int64
	var text string
	err := v.db.QueryRow(ctx, `
		select size, note from proof_checkpoints where workspace_id = $1 and size > $2 and size < $3 order by size limit 1`,
		v.Workspace, v.computed.size, v.newest.size).Scan(&size, &text)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // none, or it was deleted since
		return nil
	case err != nil:
		return fmt.Errorf("read checkpoint: %w", err)
	}
	v.next = v.openCheckpoint(size, text)
	return nil
}
