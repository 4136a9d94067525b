package proof

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/mod/sumdb/tlog"
)

// walk goes through the events that were signed for.
func (v *verification) walk(ctx context.Context) error {
	if v.newest == nil {
		v.Root = v.events.root()
		return nil
	}
	end := v.newest.size
	if v.newest.bad != "" {
		end = min(end, v.Head) // its size is anybody's word
	}
	for v.events.size < end && (v.Bad == nil || v.Bad.Seq > v.events.size) {
		more, err := v.page(ctx, end)
		if err != nil {
			return err
		}
		if v.Progress(v.events.size, end); !more {
			break
		}
	}
	v.Root = v.events.root()
	if v.doubt != nil {
		v.blame(v.doubt.Seq, "%s", v.doubt.Reason)
	}
	if v.newest.bad != "" {
		v.blame(end, "%s", v.newest.bad)
	}
	return nil
}

// walkOn goes through the events that were not signed for yet, up to the head.
func (v *verification) walkOn(ctx context.Context) error {
	v.Unsigned = max(v.Head-v.Size, 0)
	if v.Unsigned == 0 || v.Bad != nil {
		return nil
	}
	seq, last := int64(0), v.Size
	var at pgtype.Timestamptz // a damaged row may say infinity
	rows, _ := v.db.Query(ctx, `select seq, at from events where workspace_id = $1 and seq > $2 and seq <= $3 order by seq`, v.Workspace, v.Size, v.Head)
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
		v.blame(last+1, "the record is missing")
	}
	return nil
}

// page goes through the next events. It reports whether to go on.
func (v *verification) page(ctx context.Context, end int64) (more bool, err error) {
	records, err := read(ctx, v.db, v.Workspace, v.events.size, end)
	if err != nil {
		return false, err
	}
	kept, err := v.keptHashes(ctx, v.events.size, min(v.events.size+page, end))
	if err != nil {
		return false, err
	}
	for _, r := range records {
		if v.next == nil || v.next.size <= v.events.size {
			if err := v.findNext(ctx); err != nil {
				return false, err
			}
		}
		if r.Seq != v.events.size+1 {
			break
		}
		kept = v.take(&r, kept)
		if v.since != nil && v.since.size == v.events.size && !v.leadsOn() {
			return false, nil
		}
		if v.events.size == v.next.size && !v.judge() {
			return false, nil
		}
	}
	if n := int64(len(records)); n < page && v.events.size < end || n > 0 && records[n-1].Seq != v.events.size {
		v.blame(v.events.size+1, "the record is missing")
		return false, nil
	}
	return true, nil
}

// keptHashes reads the stored hashes of the events after a number up to another,
// in their order; nil in the place of one that is missing or no hash.
func (v *verification) keptHashes(ctx context.Context, after, upTo int64) ([]*tlog.Hash, error) {
	first, end := tlog.StoredHashCount(after), tlog.StoredHashCount(upTo)
	list := make([]*tlog.Hash, end-first)
	rows, _ := v.db.Query(ctx, `select index, hash from proof_hashes where workspace_id = $1 and index >= $2 and index < $3`, v.Workspace, first, end)
	var index int64
	var hash []byte
	_, err := pgx.ForEachRow(rows, []any{&index, &hash}, func() error {
		if len(hash) == tlog.HashSize {
			h := tlog.Hash(hash)
			list[index-first] = &h
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read hashes: %w", err)
	}
	return list, nil
}

// take adds an event and compares what it comes to with the stored hashes, the
// first of kept. It returns those of the events that follow.
func (v *verification) take(r *stored, kept []*tlog.Hash) []*tlog.Hash {
	own := r.hash()
	hashes := v.events.add(own)
	said := own
	if kept[0] != nil {
		said = *kept[0]
	}
	v.hashes.add(said)
	for level, h := range hashes {
		if v.doubt != nil {
			break
		}
		switch k := kept[level]; {
		case k == nil:
			v.doubt = &Bad{r.Seq, "its stored hash is missing"}
		case *k != h && level == 0:
			v.doubt, v.leaf = &Bad{r.Seq, "the record or its stored hash was changed"}, true
		case *k != h:
			v.doubt = &Bad{r.Seq, "a stored hash over it was changed"}
		}
	}
	return kept[len(hashes):]
}

// judge holds the log against the checkpoint that it has reached. It reports
// whether to go on.
func (v *verification) judge() bool {
	switch {
	case v.next.bad != "":
		if v.next.size < v.newest.size {
			v.blame(v.next.size, "%s", v.next.bad)
		}
		return v.doubt != nil // a later one may decide
	case v.events.root() == v.next.root && v.doubt == nil:
		v.good = v.next.size
		return true
	case v.events.root() == v.next.root && v.leaf:
		v.doubt.Reason = "its stored hash was changed"
	case v.events.root() == v.next.root: // doubt says it already
	case v.leaf && v.hashes.root() == v.next.root:
		v.doubt.Reason = "the record was changed"
	case v.doubt == nil:
		v.doubt = &Bad{v.good + 1, fmt.Sprintf("records %d to %d are not those that were signed for", v.good+1, v.next.size)}
	}
	return false
}

// leadsOn holds the log against the checkpoint that somebody kept, which it has
// reached. It returns false if that tells which record was changed.
func (v *verification) leadsOn() bool {
	switch {
	case v.events.root() == v.since.root:
		return true
	case v.leaf && v.hashes.root() == v.since.root:
		v.doubt.Reason = "the record was changed"
		return false
	}
	v.forked = &Bad{1, fmt.Sprintf("records 1 to %d are not those that the kept checkpoint was signed for", v.since.size)}
	return true
}

// findNext finds the checkpoint that comes after where the log is.
func (v *verification) findNext(ctx context.Context) error {
	v.next = v.newest
	var size int64
	var text string
	err := v.db.QueryRow(ctx, `
		select size, note from proof_checkpoints where workspace_id = $1 and size > $2 and size < $3 order by size limit 1`,
		v.Workspace, v.events.size, v.newest.size).Scan(&size, &text)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // or it was thinned out since
		return nil
	case err != nil:
		return fmt.Errorf("read checkpoint: %w", err)
	}
	v.next = v.open(size, text)
	return nil
}
