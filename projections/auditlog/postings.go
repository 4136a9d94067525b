package auditlog

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// postings reads posting lists of the next segments in which one of the first terms occurs, and
// those of the other terms in the same segments. It reads more segments at a time the longer the
// search goes on.
func (s *auditSearch) postings(ctx context.Context, want int, newest bool) (sets []recordSet, low, high int64, err error) {
	count := min(max(4, s.segments), 64, max(want, 4))
	found, low, high, err := s.firstTermPostings(ctx, count, newest)
	if err != nil {
		return nil, 0, 0, err
	}
	for _, terms := range s.terms[1:] {
		var entries [][]byte
		for _, t := range terms {
			for segment := range found.segments {
				entries = append(entries, postingEntry(t, segment))
			}
		}
		rows, _ := s.db.Query(ctx, `select entry, data from audit where workspace_id = $1 and entry = any($2)`, s.workspace, entries)
		others := newPostings()
		if err := others.collect(rows); err != nil {
			return nil, 0, 0, err
		}
		for block, set := range found.sets {
			set.intersect(others.sets[block]) // the empty set if there is none
			found.sets[block] = set
		}
	}
	for _, set := range found.sets {
		sets = append(sets, set)
	}
	slices.SortFunc(sets, func(a, b recordSet) int { return cmp.Compare(a.block, b.block) })
	return sets, low, high, nil
}

// firstTermPostings reads up to count posting lists of each of the first terms. Lists that hit the limit end
// earlier than others, so only the segments that all lists cover count; the rest is read again by
// the next call.
func (s *auditSearch) firstTermPostings(ctx context.Context, count int, newest bool) (found *postings, low, high int64, err error) {
	begin, end := blockOf(s.low)/segmentBlocks, blockOf(min(s.high-1, s.indexed))/segmentBlocks
	order := "asc"
	if newest {
		order = "desc"
	}
	b := &pgx.Batch{}
	lists := make([]*postings, len(s.terms[0]))
	for i, t := range s.terms[0] {
		lists[i] = newPostings()
		b.Queue(`
			select entry, data from audit where workspace_id = $1 and entry >= $2 and entry <= $3 order by entry `+order+` limit $4`,
			s.workspace, postingEntry(t, begin), postingEntry(t, end), count).Query(lists[i].collect)
	}
	if err := s.db.SendBatch(ctx, b).Close(); err != nil {
		return nil, 0, 0, fmt.Errorf("read posting lists: %w", err)
	}
	found, low, high = newPostings(), s.low, s.high
	from, to := begin, end // range of segments that all lists cover
	for _, list := range lists {
		s.segments += len(list.order)
		if len(list.order) == count && newest {
			from = max(from, list.order[count-1])
		} else if len(list.order) == count {
			to = min(to, list.order[count-1])
		}
		found.unite(list)
	}
	switch {
	case newest && from > begin:
		high = max(from*segmentSize+1, s.low)
	case newest:
		high = s.low
	case to < end:
		low = min((to+1)*segmentSize+1, s.high)
	default:
		low = min(s.high, s.indexed+1)
	}
	found.restrictTo(from, to)
	return found, low, high, nil
}

// postings are the sets of records from posting lists, by block.
type postings struct {
	sets     map[int64]recordSet
	segments map[int64]bool // segments of these lists
	order    []int64        // segments in the order in which they were read
}

func newPostings() *postings {
	return &postings{sets: map[int64]recordSet{}, segments: map[int64]bool{}}
}

// collect adds the posting lists in rows.
func (p *postings) collect(rows pgx.Rows) error {
	var entry, data []byte
	_, err := pgx.ForEachRow(rows, []any{&entry, &data}, func() error {
		segment := int64(binary.BigEndian.Uint32(entry[postingBytes-4:]))
		list, err := decodePostings(segment, data)
		for _, set := range list {
			p.add(set)
		}
		p.segments[segment], p.order = true, append(p.order, segment)
		return err
	})
	if err != nil {
		return fmt.Errorf("read posting lists: %w", err)
	}
	return nil
}

func (p *postings) add(set recordSet) {
	known := p.sets[set.block]
	set.unite(known)
	p.sets[set.block] = set
}

func (p *postings) unite(o *postings) {
	for _, set := range o.sets {
		p.add(set)
	}
	for segment := range o.segments {
		p.segments[segment] = true
	}
}

// restrictTo drops what lies outside the segments from first to last.
func (p *postings) restrictTo(first, last int64) {
	for segment := range p.segments {
		if segment < first || segment > last {
			delete(p.segments, segment)
		}
	}
	for block := range p.sets {
		if !p.segments[block/segmentBlocks] {
			delete(p.sets, block)
		}
	}
}
