package auditlog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"

	"svc/events"
)

// The audit index has three kinds of rows, distinguished by the first byte of their key, column
// entry. Numbers in keys are big-endian, so that rows sort by them.
//
//	1 term(8) segment(4)  a posting list: which records of a segment have a term
//	2 block(8)            the texts of the records of a block
//	3 target(16) seq(8)   the name of a target from record seq on
//
// A block is 128 records, a segment 32 blocks, both counted from 0. A block is indexed as a whole
// when its last record exists; until then its events write nothing, and a search scans its records
// directly.
const (
	blockSize     = 128
	segmentBlocks = 32
	segmentSize   = segmentBlocks * blockSize

	postingKind byte = 1
	textKind    byte = 2
	nameKind    byte = 3
)

// An auditRow is a row of the audit index.
type auditRow struct {
	Workspace events.ID `db:"workspace_id"`
	Entry     []byte    `db:"entry"`
	Data      []byte    `db:"data"`
}

const postingBytes = 1 + len(term{}) + 4

func postingEntry(t term, segment int64) []byte {
	entry := append([]byte{postingKind}, t[:]...)
	return binary.BigEndian.AppendUint32(entry, uint32(segment)) // 2^32 segments are 2^44 records
}

func textEntry(block int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{textKind}, uint64(block)) // not negative
}

func nameEntry(target events.ID, seq int64) []byte {
	entry := append([]byte{nameKind}, target[:]...)
	return binary.BigEndian.AppendUint64(entry, uint64(seq)) // not negative
}

// blockOf returns the number of the block that contains a record.
func blockOf(seq int64) int64 { return (seq - 1) / blockSize }

// A term is a field of a record with its value, for exact search. It is the first 8 bytes of a
// SHA-256, so nobody can choose a value whose term collides with another.
type term [8]byte

// The fields of terms.
const (
	actionField     = 'a'
	nounField       = 'n' // part of an action before the first dot
	actorIDField    = 'i'
	actorNameField  = 'm'
	actorTypeField  = 'y'
	targetIDField   = 't'
	targetNameField = 'u'
)

func newTerm(field byte, value string) term {
	sum := sha256.Sum256(append([]byte{field}, value...))
	return term(sum[:])
}

// A recordText has the texts by which a record is searched and shown.
type recordText struct{ action, actor, target string }

// terms returns the terms of a record with these texts.
func (t recordText) terms(r *events.Record, target events.Target) []term {
	noun, _, _ := strings.Cut(t.action, ".")
	list := []term{
		newTerm(actionField, t.action), newTerm(nounField, noun),
		newTerm(actorIDField, r.Actor.ID.String()), newTerm(actorTypeField, string(r.Actor.Type)),
		newTerm(targetIDField, target.ID.String()),
	}
	if t.actor != "" {
		list = append(list, newTerm(actorNameField, t.actor))
	}
	if t.target != "" {
		list = append(list, newTerm(targetNameField, t.target))
	}
	return list
}

// targetNames are the current names of the targets of a workspace.
type targetNames map[events.ID]string

// nameOf returns the name of a target. If t has a name, of remembers it.
func (n targetNames) nameOf(t events.Target) string {
	switch {
	case t.ID.IsZero():
		return clip(t.Name)
	case t.Name != "":
		n[t.ID] = clip(t.Name)
	}
	return n[t.ID]
}

// describe returns the texts of a record and its target.
func (n targetNames) describe(r *events.Record) (recordText, events.Target) {
	target := r.Target()
	action, _ := r.Action()
	return recordText{clip(action), clip(r.Actor.Name), n.nameOf(target)}, target
}

// indexBlock returns the rows that a whole block of records adds to the index. Data of posting
// lists is to be appended to existing rows. names are the names of all targets before the block;
// indexBlock updates them.
func indexBlock(records []events.Record, names targetNames) (rows []auditRow) {
	workspace, block := records[0].Workspace, blockOf(records[0].Seq)
	add := func(entry, data []byte) { rows = append(rows, auditRow{workspace, entry, data}) }
	var order []term
	postings := map[term]*recordSet{}
	var texts textWriter
	for i := range records {
		r := &records[i]
		target := r.Target().ID
		before := names[target]
		text, of := names.describe(r)
		if now := names[target]; now != before {
			add(nameEntry(target, r.Seq), []byte(now))
		}
		for _, t := range text.terms(r, of) {
			if postings[t] == nil {
				postings[t], order = &recordSet{block: block}, append(order, t)
			}
			postings[t].add(i)
		}
		texts.add(text)
	}
	for _, t := range order {
		add(postingEntry(t, block/segmentBlocks), postings[t].encode())
	}
	add(textEntry(block), texts.encode())
	return rows
}

// A recordSet is a bitmap of the records of a block.
type recordSet struct {
	block int64
	bits  [blockSize / 64]uint64
}

func (s *recordSet) add(i int)             { s.bits[i/64] |= 1 << (i % 64) }
func (s *recordSet) remove(i int)          { s.bits[i/64] &^= 1 << (i % 64) }
func (s *recordSet) has(i int) bool        { return s.bits[i/64]>>(i%64)&1 == 1 }
func (s *recordSet) size() int             { return bits.OnesCount64(s.bits[0]) + bits.OnesCount64(s.bits[1]) }
func (s *recordSet) unite(o recordSet)     { s.bits[0] |= o.bits[0]; s.bits[1] |= o.bits[1] }
func (s *recordSet) intersect(o recordSet) { s.bits[0] &= o.bits[0]; s.bits[1] &= o.bits[1] }

// maxSparse is the number of records from which a bitmap is shorter than a list.
const maxSparse = blockSize / 8

// encode returns the set as an element of a posting list: the block's number in its segment, then a
// count below sparse and that many record numbers, or sparse and a bitmap.
func (s *recordSet) encode() []byte {
	part := []byte{byte(s.block % segmentBlocks)} // below 32
	if s.size() >= maxSparse {
		part = append(part, maxSparse)
		part = binary.BigEndian.AppendUint64(part, s.bits[0])
		return binary.BigEndian.AppendUint64(part, s.bits[1])
	}
	part = append(part, byte(s.size())) // below sparse
	for i := range blockSize {
		if s.has(i) {
			part = append(part, byte(i))
		}
	}
	return part
}

var errAuditRow = errors.New("a row of the audit index is damaged")

// decodePostings decodes the posting list of a segment, in the order of its blocks.
func decodePostings(segment int64, data []byte) (list []recordSet, err error) {
	for len(data) > 0 {
		if len(data) < 2 || data[0] >= segmentBlocks || data[1] > maxSparse || len(data) < 2+int(data[1]) {
			return nil, errAuditRow
		}
		s := recordSet{block: segment*segmentBlocks + int64(data[0])}
		n := int(data[1])
		data = data[2:]
		if n == maxSparse {
			s.bits[0], s.bits[1] = binary.BigEndian.Uint64(data), binary.BigEndian.Uint64(data[8:])
		} else {
			for _, i := range data[:n] {
				s.add(int(i % blockSize))
			}
		}
		list, data = append(list, s), data[n:]
	}
	return list, nil
}

// A textWriter encodes the texts of a block: the number of distinct strings; each string, preceded
// by its length; and for each record the indexes of its action, actor and target. Numbers are
// varints.
type textWriter struct {
	count   uint64
	strings []byte
	records []byte
	known   map[string]uint64
}

func (w *textWriter) add(t recordText) {
	for _, s := range []string{t.action, t.actor, t.target} {
		n, ok := w.known[s]
		if !ok {
			if w.known == nil {
				w.known = map[string]uint64{}
			}
			n = w.count
			w.known[s] = n
			w.count++
			w.strings = append(binary.AppendUvarint(w.strings, uint64(len(s))), s...)
		}
		w.records = binary.AppendUvarint(w.records, n)
	}
}

func (w *textWriter) encode() []byte {
	return append(append(binary.AppendUvarint(nil, w.count), w.strings...), w.records...)
}

// A blockTexts is the decoded texts of a block.
type blockTexts struct {
	strings []string
	records [blockSize][3]int // indexes of the action, the actor and the target
}

func decodeTexts(data []byte) (*blockTexts, error) {
	number := func(below int) (int, error) {
		n, size := binary.Uvarint(data)
		if size <= 0 || n >= uint64(below) { // not negative
			return 0, errAuditRow
		}
		data = data[size:]
		return int(n), nil // it is below an int
	}
	count, err := number(3*blockSize + 1)
	if err != nil {
		return nil, err
	}
	t := &blockTexts{strings: make([]string, count)}
	for i := range t.strings {
		length, err := number(len(data))
		if err != nil || length > len(data) {
			return nil, errAuditRow
		}
		t.strings[i], data = string(data[:length]), data[length:]
	}
	for i := range t.records {
		for field := range t.records[i] {
			if t.records[i][field], err = number(count); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// textOf returns the texts of a record of the block.
func (t *blockTexts) textOf(seq int64) recordText {
	r := t.records[(seq-1)%blockSize]
	return recordText{t.strings[r[0]], t.strings[r[1]], t.strings[r[2]]}
}
