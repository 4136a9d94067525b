// Package spool keeps numbered records on a disk until somebody else has them: what a
// job says, from when it is said until the service has acknowledged it.
//
// A spool is a folder of segments. A segment is a file named by the number of its first
// record; a record is its length, a checksum (CRC-32C), its number, a kind and bytes. What
// a power cut left of a record that was being written is cut off when the folder is opened;
// what was synced before is there. Segments of which all is acknowledged are removed.
package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// segmentSize is how long a file becomes, about.
const segmentSize = 4 << 20

// ErrGone is the error of reading a record that was acknowledged, or was never written.
var ErrGone = errors.New("no such record")

// A Record is what was appended.
type Record struct {
	Seq  int64
	Kind byte
	Data []byte
}

// A position is where a record is. The list of positions has one for each unacknowledged record.
type position struct {
	in   *segment
	at   int64
	size int // of the data
}

type segment struct {
	file  *os.File
	first int64
	size  int64
}

// A Spool is an open folder. It may be used by many goroutines.
type Spool struct {
	dir     string
	segment int64 // length at which a file ends

	mu        sync.Mutex
	segments  []*segment // the last one is written to
	positions []position // of the records from next-len(positions) on
	next      int64
	dirty     bool
	closed    bool
}

// Create makes the folder dir, which must not exist.
func Create(dir string) (*Spool, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create spool: %w", err)
	}
	s := &Spool{dir: dir, segment: segmentSize, next: 1}
	if err := s.begin(); err != nil {
		return nil, err
	}
	return s, syncFolder(filepath.Dir(dir))
}

// begin starts a segment with the next record. The caller holds the lock, if anybody else knows s.
func (s *Spool) begin() error {
	name := filepath.Join(s.dir, fileName(s.next))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("begin segment: %w", err)
	}
	s.segments = append(s.segments, &segment{file: f, first: s.next})
	return syncFolder(s.dir)
}

func fileName(first int64) string { return fmt.Sprintf("%016x.log", first) }

// syncFolder makes the names in it last.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}

// Append adds a record and returns its number. It is on the disk after the next [Spool.Sync].
// After an error nothing is added.
func (s *Spool) Append(kind byte, data []byte) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, fmt.Errorf("append to spool %s: %w", s.dir, os.ErrClosed)
	}
	if s.last().size >= s.segment {
		if err := s.sync(); err != nil {
			return 0, err
		}
		if err := s.begin(); err != nil {
			return 0, err
		}
	}
	to := s.last()
	record := encode(Record{Seq: s.next, Kind: kind, Data: data})
	if _, err := to.file.WriteAt(record, to.size); err != nil {
		_ = to.file.Truncate(to.size) // what of it is there is overwritten by the next, or cut when opened
		return 0, fmt.Errorf("append to spool: %w", err)
	}
	s.positions = append(s.positions, position{in: to, at: to.size, size: len(data)})
	to.size += int64(len(record))
	s.next++
	s.dirty = true
	return s.next - 1, nil
}

func (s *Spool) last() *segment { return s.segments[len(s.segments)-1] }

// Sync returns when all that was appended is on the disk.
func (s *Spool) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return s.sync()
}

func (s *Spool) sync() error {
	if !s.dirty {
		return nil
	}
	if err := s.last().file.Sync(); err != nil {
		return fmt.Errorf("sync spool: %w", err)
	}
	s.dirty = false
	return nil
}

// Last is the number of the last record, 0 if there was none yet.
func (s *Spool) Last() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next - 1
}

// Acked is the number up to which all is acknowledged, as far as this Spool knows:
// after it was opened anew that may be less than what was acknowledged before.
func (s *Spool) Acked() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first() - 1
}

// first is the number of the first record that is not acknowledged, or the next one's.
func (s *Spool) first() int64 { return s.next - int64(len(s.positions)) }

// Bytes is the length of all files.
func (s *Spool) Bytes() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segments {
		n += g.size
	}
	return n
}

// Get returns the record of that number.
func (s *Spool) Get(seq int64) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := seq - s.first()
	if s.closed || i < 0 || i >= int64(len(s.positions)) {
		return Record{}, fmt.Errorf("record %d of spool %s: %w", seq, s.dir, ErrGone)
	}
	p := s.positions[i]
	b := make([]byte, headSize+p.size)
	if _, err := p.in.file.ReadAt(b, p.at); err != nil {
		return Record{}, fmt.Errorf("record %d of spool: %w", seq, err)
	}
	r, _, err := decode(b, seq)
	if err != nil {
		return Record{}, fmt.Errorf("record %d of spool %s: %w", seq, s.dir, err)
	}
	return r, nil
}

// Ack says that all records up to that number are stored elsewhere. Numbers that were
// acknowledged before, or never given, change nothing.
func (s *Spool) Ack(upto int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := upto - s.first() + 1; n > 0 && upto < s.next {
		s.positions = s.positions[n:]
	}
	return s.prune()
}

// prune removes segments of which nothing is left, but for the last.
func (s *Spool) prune() error {
	for !s.closed && len(s.segments) > 1 && s.segments[1].first <= s.first() {
		g := s.segments[0]
		s.segments = s.segments[1:]
		_ = g.file.Close() // it is removed
		if err := os.Remove(g.file.Name()); err != nil {
			return fmt.Errorf("remove segment: %w", err)
		}
	}
	return nil
}

// SkipTo has the next record follow number seq, where that is further than the records go
// that are here: a power cut took what had been sent and acknowledged already.
func (s *Spool) SkipTo(seq int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq < s.next || s.closed {
		return nil
	}
	s.positions, s.next = nil, seq+1
	if err := s.begin(); err != nil {
		return err
	}
	s.dirty = false
	return s.prune()
}

// Close closes the files and leaves them.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	err := s.sync()
	s.closed = true
	for _, g := range s.segments {
		err = errors.Join(err, g.file.Close())
	}
	return err
}

// Remove closes the files and removes the folder with all that is in it.
func (s *Spool) Remove() error {
	err := s.Close()
	return errors.Join(err, os.RemoveAll(s.dir))
}
