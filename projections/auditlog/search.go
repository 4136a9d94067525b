package auditlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// How much one page searches at most. A search for something rare continues with the next page.
const (
	maxTextBlocks = 512     // blocks whose texts are read
	maxSegments   = 256     // segments in which several terms are intersected
	maxTail       = 8192    // records after the last whole block, if the view is far behind
	wholeBytes    = 1 << 18 // stored data, without the last record
)

// microsecond is the resolution of times in the database.
const microsecond = time.Microsecond

// A searchable is a pool, or one connection of it.
type searchable interface {
	store.Querier
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// An auditSearch searches for the records that match a filter, with numbers from low up to and
// excluding high. Both bounds move towards each other as the search proceeds.
type auditSearch struct {
	db        searchable
	workspace events.ID
	low, high int64
	head      int64    // of the log
	indexed   int64    // the last record in the index
	terms     [][]term // a record matches if it has one term of each list
	text      textFilter
	bounded   bool // oldest stops at the bounds of a page, as newest does
	whole     bool // rows have their stored data, up to wholeBytes; otherwise they are summaries
	bytes     int  // size of the stored data found
	blocks    int  // blocks whose texts were read
	segments  int  // segments whose posting lists were read
}

// newAuditSearch prepares a search: it reads the head and the index's position and translates times
// into numbers.
func newAuditSearch(ctx context.Context, db searchable, workspace events.ID, f AuditFilter, low, high int64) (*auditSearch, error) {
	s := &auditSearch{db: db, workspace: workspace, terms: f.terms(), text: f.textFilter()}
	var taken int64
	err := db.QueryRow(ctx, `
		select coalesce((select head from logs where workspace_id = $1), 0),
			coalesce((select seq from checkpoints where workspace_id = $1 and view = 'audit'), 0)`, workspace).Scan(&s.head, &taken)
	if err != nil {
		return nil, fmt.Errorf("read position of audit index: %w", err)
	}
	head := s.head
	s.low, s.high = low, min(high, head+1)
	taken = min(taken, head)
	s.indexed = taken - taken%blockSize
	if !f.From.IsZero() {
		before, err := SeqAt(ctx, db, workspace, f.From.Truncate(microsecond).Add(-microsecond), head)
		if err != nil {
			return nil, err
		}
		s.low = max(s.low, before+1)
	}
	if !f.To.IsZero() {
		before, err := SeqAt(ctx, db, workspace, f.To.Truncate(microsecond).Add(-microsecond), head)
		if err != nil {
			return nil, err
		}
		s.high = min(s.high, before+1)
	}
	return s, nil
}

// newest returns up to limit records, newest first. The range between low and high is not searched
// yet.
func (s *auditSearch) newest(ctx context.Context, limit int) (list []AuditRow, err error) {
	if s.high > max(s.low, s.indexed+1) {
		if list, err = s.tail(ctx, max(s.low, s.indexed+1, s.high-maxTail), s.high); err != nil {
			return nil, err
		}
		slices.Reverse(list)
		s.high = max(s.low, s.indexed+1, s.high-maxTail)
	}
	for len(list) < limit && s.low < s.high && s.high <= s.indexed+1 && !s.exhausted() {
		found, err := s.step(ctx, limit-len(list), true)
		if err != nil {
			return nil, err
		}
		slices.Reverse(found)
		list = append(list, found...)
	}
	return list[:min(len(list), limit)], nil
}

// count returns the number of matching records, up to most. It is exact if the whole range was
// searched.
func (s *auditSearch) count(ctx context.Context, most int) (n int, exact bool, err error) {
	if len(s.terms) == 0 && s.text.isZero() {
		return int(max(0, s.high-s.low)), true, nil // numbers have no gap
	}
	if begin := max(s.low, s.indexed+1); s.high > begin {
		begin = max(begin, s.high-maxTail)
		list, err := s.tail(ctx, begin, s.high)
		if err != nil {
			return 0, false, err
		}
		n, s.high = len(list), begin
	}
	for n <= most && s.low < s.high && s.high <= s.indexed+1 && !s.exhausted() {
		seqs, err := s.next(ctx, most, true)
		if err != nil {
			return 0, false, err
		}
		n += len(seqs)
	}
	return min(n, most), n <= most && s.low >= s.high, nil
}

// exhausted reports whether a page has searched as much as it may.
func (s *auditSearch) exhausted() bool { return s.blocks >= maxTextBlocks || s.segments >= maxSegments }

// oldest returns up to limit records, oldest first. It returns fewer if there are no more, or if
// the search is bounded and its bound is reached, or if it has wholeBytes, but at least one if one matches.
func (s *auditSearch) oldest(ctx context.Context, limit int) ([]AuditRow, error) {
	list := make([]AuditRow, 0, limit)
	for len(list) < limit && s.low < min(s.high, s.indexed+1) && !(s.bounded && s.exhausted()) && s.bytes < wholeBytes {
		found, err := s.step(ctx, limit-len(list), false)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	for len(list) < limit && s.low < s.high && s.low > s.indexed && s.bytes < wholeBytes {
		end := min(s.high, s.low+maxTail)
		found, err := s.tail(ctx, s.low, end)
		if err == nil && s.whole {
			found, err = s.readWhole(ctx, found[:min(len(found), limit-len(list))])
		}
		if err != nil {
			return nil, err
		}
		s.low = end
		if list = append(list, found...); s.bounded {
			break
		}
	}
	return list[:min(len(list), limit)], nil
}

// step searches the next part of the index from either end and returns up to limit records of it,
// oldest first.
func (s *auditSearch) step(ctx context.Context, limit int, newest bool) ([]AuditRow, error) {
	seqs, err := s.next(ctx, limit, newest)
	if err != nil {
		return nil, err
	}
	if n := len(seqs) - limit; n > 0 && newest {
		seqs = seqs[n:]
	} else if n > 0 {
		seqs = seqs[:limit]
	}
	return s.read(ctx, seqs)
}

// next searches the next part of the index from either end and returns the numbers of matching
// records, ascending.
func (s *auditSearch) next(ctx context.Context, want int, newest bool) (seqs []int64, err error) {
	sets, low, high, err := s.candidates(ctx, want, newest)
	if err == nil && !s.text.isZero() {
		err = s.narrow(ctx, sets)
	}
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		for i := range blockSize {
			if seq := set.block*blockSize + int64(i) + 1; set.has(i) && seq >= s.low && seq < s.high && seq <= s.indexed {
				seqs = append(seqs, seq)
			}
		}
	}
	s.low, s.high = low, high
	return seqs, nil
}

// candidates returns the records of the next part of the index that have all terms, by block, and
// the range that remains to be searched after it.
func (s *auditSearch) candidates(ctx context.Context, want int, newest bool) (sets []recordSet, low, high int64, err error) {
	if len(s.terms) > 0 {
		return s.postings(ctx, want, newest)
	}
	count := int64(want/blockSize + 2)
	if !s.text.isZero() {
		count = 32
	}
	first, last := blockOf(s.low), blockOf(min(s.high-1, s.indexed))
	low, high = s.low, s.high
	if newest {
		first = max(first, last-count+1)
		high = max(first*blockSize+1, s.low)
	} else {
		last = min(last, first+count-1)
		low = min((last+1)*blockSize+1, s.high)
	}
	for block := first; block <= last; block++ {
		sets = append(sets, recordSet{block: block, bits: [2]uint64{^uint64(0), ^uint64(0)}})
	}
	return sets, low, high, nil
}

// narrow removes records that do not match the text filter from sets.
func (s *auditSearch) narrow(ctx context.Context, sets []recordSet) error {
	blocks := make([]int64, 0, len(sets))
	for _, set := range sets {
		if set.size() > 0 {
			blocks = append(blocks, set.block)
		}
	}
	b := &pgx.Batch{}
	texts := s.queueTexts(b, blocks)
	if err := s.db.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read texts: %w", err)
	}
	s.blocks += len(blocks)
	for i := range sets {
		if t := texts[sets[i].block]; t != nil {
			s.text.narrow(&sets[i], t)
		} else {
			sets[i].bits = [2]uint64{}
		}
	}
	return nil
}

// queueTexts queues reading the texts of blocks. The map is filled when the batch is sent.
func (s *auditSearch) queueTexts(b *pgx.Batch, blocks []int64) map[int64]*blockTexts {
	texts := map[int64]*blockTexts{}
	entries := make([][]byte, len(blocks))
	for i, block := range blocks {
		entries[i] = textEntry(block)
	}
	b.Queue(`
		select entry, data from audit where workspace_id = $1 and entry = any($2)`, s.workspace, entries).Query(func(rows pgx.Rows) error {
		var entry, data []byte
		_, err := pgx.ForEachRow(rows, []any{&entry, &data}, func() error {
			t, err := decodeTexts(data)
			texts[int64(binary.BigEndian.Uint64(entry[1:]))] = t // as textEntry wrote it
			return err
		})
		return err
	})
	return texts
}

// read reads the records with the given ascending numbers, each with the name of its target. It
// leaves out numbers that are not in the log.
func (s *auditSearch) read(ctx context.Context, seqs []int64) (list []AuditRow, err error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	var blocks []int64
	for _, seq := range seqs {
		if block := blockOf(seq); len(blocks) == 0 || blocks[len(blocks)-1] != block {
			blocks = append(blocks, block)
		}
	}
	b := &pgx.Batch{}
	texts := s.queueTexts(b, blocks)
	sql, args := `seq = any($2)`, []any{s.workspace, seqs}
	if first, last := seqs[0], seqs[len(seqs)-1]; last-first+1 == int64(len(seqs)) {
		sql, args = `seq >= $2 and seq <= $3`, []any{s.workspace, first, last}
	}
	sql = `select ` + store.EventColumns + ` from events where workspace_id = $1 and ` + sql + ` order by seq`
	if s.whole {
		sql = store.WithinBytes(sql, store.EventColumns, strconv.Itoa(wholeBytes-s.bytes)) + ` order by seq`
	}
	b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		list, err = pgx.AppendRows(make([]AuditRow, 0, len(seqs)), rows, func(row pgx.CollectableRow) (r AuditRow, err error) {
			if r.Row, err = store.ScanRow(row); err != nil {
				return r, err
			}
			if t := texts[blockOf(r.Seq())]; t != nil {
				r.target = t.textOf(r.Seq()).target
			}
			if s.whole {
				s.bytes += r.Bytes()
			} else {
				r.Summarize()
			}
			return r, nil
		})
		return err
	})
	if err := s.db.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	return list, nil
}

// tail returns the matching records in the range from low up to and excluding high that come after
// the last indexed block, oldest first. Earlier records in that range can name the target of later
// ones, so it reads from that block on, unless the view is far behind.
func (s *auditSearch) tail(ctx context.Context, low, high int64) (list []AuditRow, err error) {
	rows, _ := s.db.Query(ctx, `
		select `+store.EventColumns+` from events
		where workspace_id = $1 and seq > $2 and seq < $3 order by seq`, s.workspace, max(s.indexed, high-1-maxTail), high)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r store.Row, err error) {
		if r, err = store.ScanRow(row); err == nil {
			r.Summarize()
		}
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read records after %d: %w", s.indexed, err)
	}
	records := make([]events.Record, len(all))
	for i := range all {
		records[i] = all[i].Record()
	}
	names := targetNames{}
	if unnamed := targetsOf(records); len(unnamed) > 0 {
		b := &pgx.Batch{}
		names.queueRead(b, "audit", s.workspace, unnamed, s.indexed)
		if err := s.db.SendBatch(ctx, b).Close(); err != nil {
			return nil, fmt.Errorf("read names of targets: %w", err)
		}
	}
	for i := range records {
		r := &records[i]
		text, target := names.describe(r)
		if r.Seq >= low && s.matches(text, r, target) {
			list = append(list, AuditRow{all[i], text.target})
		}
	}
	return list, nil
}

// readWhole reads the stored data of summaries.
func (s *auditSearch) readWhole(ctx context.Context, summaries []AuditRow) ([]AuditRow, error) {
	seqs, targets := make([]int64, len(summaries)), map[int64]string{}
	for i := range summaries {
		seqs[i] = summaries[i].Seq()
		targets[seqs[i]] = summaries[i].target
	}
	list, err := s.read(ctx, seqs)
	for i := range list {
		list[i].target = targets[list[i].Seq()]
	}
	return list, err
}

// matches reports whether a record matches the filter.
func (s *auditSearch) matches(text recordText, r *events.Record, target events.Target) bool {
	has := text.terms(r, target)
	for _, terms := range s.terms {
		if !slices.ContainsFunc(terms, func(t term) bool { return slices.Contains(has, t) }) {
			return false
		}
	}
	return s.text.isZero() || s.text.matches(text)
}
