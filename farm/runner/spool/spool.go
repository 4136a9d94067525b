// Package spool stores numbered records on disk until they are acknowledged. A runner keeps in it
// what a job reports until the service has stored that.
//
// A spool is a folder of segments. A segment is a file named by the number of its first record. A
// record is its length, a checksum (CRC-32C), its number, a kind and data. A record torn by a power
// cut is cut off when the folder is opened; everything synced before is kept. A segment is removed
// when all its records are acknowledged.
package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"svc/atomicfile"
)

// segmentSize is the size in bytes from which on a new segment is started.
const segmentSize = 4 << 20

// ErrGone is returned for a record that was acknowledged or never written.
var ErrGone = errors.New("no such record")

// A Record is a stored record.
type Record struct {
	Seq  int64
	Kind byte
	Data []byte
}

// A position is the location of a record.
type position struct {
	segment *segment
	at      int64
	size    int // of the data in bytes
}

type segment struct {
	file  *os.File
	first int64
	size  int64
}

// A Spool is an open spool folder. It may be used by several goroutines.
type Spool struct {
	dir        string
	maxSegment int64 // segmentSize, except in tests

	mu        sync.Mutex
	segments  []*segment // the last one is appended to
	positions []position // of the unacknowledged records, the last of which is next-1
	next      int64
	dirty     bool
	closed    bool
}

// Create creates the folder dir, which must not exist, and opens it.
func Create(dir string) (*Spool, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create spool: %w", err)
	}
	s := &Spool{dir: dir, maxSegment: segmentSize, next: 1}
	if err := s.startSegment(s.next); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return s, atomicfile.SyncDir(filepath.Dir(dir))
}

// startSegment starts a segment with the record first. If it fails nothing is changed. The caller holds
// s.mu, unless s is not shared yet.
func (s *Spool) startSegment(first int64) error {
	name := filepath.Join(s.dir, fileName(first))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("begin segment: %w", err)
	}
	if err := atomicfile.SyncDir(s.dir); err != nil {
		return errors.Join(fmt.Errorf("begin segment: %w", err), f.Close(), os.Remove(name))
	}
	s.segments = append(s.segments, &segment{file: f, first: first})
	return nil
}

func fileName(first int64) string { return fmt.Sprintf("%016x.log", first) }

// Append adds a record and returns its number. The record is durable after the next [Spool.Sync].
// If Append fails nothing is added.
func (s *Spool) Append(kind byte, data []byte) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, fmt.Errorf("append to spool %s: %w", s.dir, os.ErrClosed)
	}
	if s.last().size >= s.maxSegment {
		if err := s.sync(); err != nil {
			return 0, err
		}
		if err := s.startSegment(s.next); err != nil {
			return 0, err
		}
	}
	to := s.last()
	record := encode(Record{Seq: s.next, Kind: kind, Data: data})
	if _, err := to.file.WriteAt(record, to.size); err != nil {
		_ = to.file.Truncate(to.size) // if this fails, the partial record is overwritten, or cut off by Open
		return 0, fmt.Errorf("append to spool: %w", err)
	}
	s.positions = append(s.positions, position{segment: to, at: to.size, size: len(data)})
	to.size += int64(len(record))
	s.next++
	s.dirty = true
	return s.next - 1, nil
}

func (s *Spool) last() *segment { return s.segments[len(s.segments)-1] }

// Sync makes all appended records durable.
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

// Last returns the number of the last record, 0 if there is none.
func (s *Spool) Last() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next - 1
}

// firstUnacked returns the number of the first unacknowledged record, or of the next one.
func (s *Spool) firstUnacked() int64 { return s.next - int64(len(s.positions)) }

// Bytes returns the size of all segments.
func (s *Spool) Bytes() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segments {
		n += g.size
	}
	return n
}

// Get returns a record. Its error wraps [ErrGone] if the record is not there.
func (s *Spool) Get(seq int64) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := seq - s.firstUnacked()
	if s.closed || i < 0 || i >= int64(len(s.positions)) {
		return Record{}, fmt.Errorf("record %d of spool %s: %w", seq, s.dir, ErrGone)
	}
	p := s.positions[i]
	b := make([]byte, headSize+p.size)
	if _, err := p.segment.file.ReadAt(b, p.at); err != nil {
		return Record{}, fmt.Errorf("record %d of spool: %w", seq, err)
	}
	r, _, err := decode(b, seq)
	if err != nil {
		return Record{}, fmt.Errorf("record %d of spool %s: %w", seq, s.dir, err)
	}
	return r, nil
}

// Ack acknowledges all records up to a number. A number that is acknowledged already, or not
// written yet, has no effect.
func (s *Spool) Ack(upto int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := upto - s.firstUnacked() + 1; n > 0 && upto < s.next {
		s.positions = s.positions[n:]
	}
	return s.prune()
}

// prune removes all segments whose records are acknowledged, except the last.
func (s *Spool) prune() error {
	for !s.closed && len(s.segments) > 1 && s.segments[1].first <= s.firstUnacked() {
		g := s.segments[0]
		s.segments = s.segments[1:]
		_ = g.file.Close() // it is removed
		if err := os.Remove(g.file.Name()); err != nil {
			return fmt.Errorf("remove segment: %w", err)
		}
	}
	return nil
}

// SkipTo makes the next record follow number seq, if seq is beyond the last record. That happens
// after a power cut has lost records that were sent and acknowledged. After an error it can be tried again.
func (s *Spool) SkipTo(seq int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq < s.next || s.closed {
		return nil
	}
	if err := s.startSegment(seq + 1); err != nil {
		return err
	}
	s.positions, s.next, s.dirty = nil, seq+1, false
	return s.prune()
}

// Close syncs and closes the files.
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

// Remove closes the files and removes the folder.
func (s *Spool) Remove() error {
	err := s.Close()
	return errors.Join(err, os.RemoveAll(s.dir))
}
