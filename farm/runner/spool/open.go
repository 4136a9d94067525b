package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"svc/atomicfile"
)

// headSize is the size of a record's header: data length (4), checksum of what follows it (4), number (8), kind (1).
const headSize = 4 + 4 + 8 + 1

// maxData is more than any record has. A larger length is corrupt.
const maxData = 16 << 20

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errTorn    = errors.New("torn record")
)

func encode(r Record) []byte {
	b := make([]byte, headSize, headSize+len(r.Data))
	binary.BigEndian.PutUint32(b, uint32(len(r.Data)))
	binary.BigEndian.PutUint64(b[8:], uint64(r.Seq))
	b[16] = r.Kind
	b = append(b, r.Data...)
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	return b
}

// decode decodes the record at the beginning of b, which must have the number seq, and returns its
// encoded length. Data aliases b.
func decode(b []byte, seq int64) (r Record, n int, err error) {
	if len(b) < headSize {
		return r, 0, errTorn
	}
	size := binary.BigEndian.Uint32(b)
	if size > maxData || len(b) < headSize+int(size) {
		return r, 0, errTorn
	}
	n = headSize + int(size)
	r = Record{Seq: int64(binary.BigEndian.Uint64(b[8:])), Kind: b[16], Data: b[headSize:n]}
	if r.Seq != seq || binary.BigEndian.Uint32(b[4:]) != crc32.Checksum(b[8:n], castagnoli) {
		return r, 0, errTorn
	}
	return r, n, nil
}

// Open opens a folder created by [Create], after a crash of the process or the machine too. It
// calls visit, if not nil, with each record in order. Data is valid only during the call.
func Open(dir string, visit func(Record)) (*Spool, error) {
	firsts, err := segments(dir)
	if err != nil {
		return nil, err
	}
	s := &Spool{dir: dir, maxSegment: segmentSize, next: 1}
	if len(firsts) == 0 { // interrupted by a crash while it was created
		if err := s.startSegment(s.next); err != nil {
			return nil, err
		}
		return s, nil
	}
	s.next = firsts[0]
	for i, first := range firsts {
		if first != s.next { // the previous segment was torn, so nothing after it was synced
			return s, errors.Join(s.removeSegments(firsts[i:]), s.syncAll())
		}
		if err := s.loadSegment(first, visit); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, s.syncAll()
}

// segments returns the first numbers of the segments, in order.
func segments(dir string) (firsts []int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".log")
		if first, err := strconv.ParseInt(name, 16, 64); ok && err == nil && first > 0 && e.Name() == fileName(first) {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	return firsts, nil
}

// loadSegment reads a segment and cuts off a torn record.
func (s *Spool) loadSegment(first int64, visit func(Record)) error {
	name := filepath.Join(s.dir, fileName(first))
	b, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("open spool: %w", err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open spool: %w", err)
	}
	g := &segment{file: f, first: first}
	s.segments = append(s.segments, g)
	for {
		r, n, err := decode(b[g.size:], s.next)
		if err != nil {
			break
		}
		if visit != nil {
			visit(r)
		}
		s.positions = append(s.positions, position{segment: g, at: g.size, size: len(r.Data)})
		g.size += int64(n)
		s.next++
	}
	if g.size < int64(len(b)) {
		if err := f.Truncate(g.size); err != nil {
			return fmt.Errorf("cut torn record: %w", err)
		}
	}
	return nil
}

// removeSegments removes the segments after a torn one.
func (s *Spool) removeSegments(firsts []int64) (err error) {
	for _, first := range firsts {
		err = errors.Join(err, os.Remove(filepath.Join(s.dir, fileName(first))))
	}
	return err
}

// syncAll makes what was found, and what was cut off, durable.
func (s *Spool) syncAll() error {
	s.dirty = true
	return errors.Join(s.sync(), atomicfile.SyncDir(s.dir))
}
