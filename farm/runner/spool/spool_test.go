package spool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Acked returns the number up to which all records are acknowledged. After Open it may be less than
// before, since only whole segments are removed.
func (s *Spool) Acked() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.firstUnacked() - 1
}

func create(t *testing.T) (*Spool, string) {
	dir := filepath.Join(t.TempDir(), "job.1")
	s, err := Create(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

func reopen(t require.TestingT, dir string) (*Spool, []string) {
	var found []string
	s, err := Open(dir, func(r Record) { found = append(found, fmt.Sprintf("%d %c %s", r.Seq, r.Kind, r.Data)) })
	require.NoError(t, err)
	return s, found
}

func TestRecordsSurviveReopening(t *testing.T) {
	t.Parallel()
	s, dir := create(t)
	require.Zero(t, s.Last())
	for i, text := range []string{"started", "", "log"} {
		seq, err := s.Append('e', []byte(text))
		require.NoError(t, err)
		require.EqualValues(t, i+1, seq)
	}
	require.NoError(t, s.Sync())
	r, err := s.Get(3)
	require.NoError(t, err)
	require.Equal(t, Record{3, 'e', []byte("log")}, r)
	require.NoError(t, s.Close())
	_, err = s.Append('e', nil)
	require.ErrorIs(t, err, os.ErrClosed)

	s, found := reopen(t, dir)
	require.Equal(t, []string{"1 e started", "2 e ", "3 e log"}, found)
	seq, err := s.Append('f', []byte("more"))
	require.NoError(t, err)
	require.EqualValues(t, 4, seq)
	require.NoError(t, s.Remove())
	require.NoDirExists(t, dir)
}

func TestAcknowledgedRecordsAreRemoved(t *testing.T) {
	t.Parallel()
	s, dir := create(t)
	s.maxSegment = 100
	for range 20 {
		_, err := s.Append('l', bytes.Repeat([]byte("x"), 40))
		require.NoError(t, err)
	}
	before := s.Bytes()
	files, err := segments(dir)
	require.NoError(t, err)
	require.Greater(t, len(files), 5)

	require.NoError(t, s.Ack(0))
	require.NoError(t, s.Ack(21), "a number that nobody gave")
	require.Zero(t, s.Acked())
	require.NoError(t, s.Ack(11))
	require.NoError(t, s.Ack(4), "an old one")
	require.EqualValues(t, 11, s.Acked())
	_, err = s.Get(11)
	require.ErrorIs(t, err, ErrGone)
	r, err := s.Get(12)
	require.NoError(t, err)
	require.EqualValues(t, 12, r.Seq)
	require.Less(t, s.Bytes(), before)
	require.NoError(t, s.Ack(20))
	require.EqualValues(t, 20, s.Last())
	files, err = segments(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)

	require.NoError(t, s.Close())
	s, _ = reopen(t, dir)
	require.EqualValues(t, 20, s.Last(), "numbers go on, though all is acknowledged")
	require.NoError(t, s.Close())
}

// The machine stops while a record is being written. Whatever part of it, or garbage in its place,
// reached the disk, all earlier records are kept and the next one follows them.
func TestTornTailIsCut(t *testing.T) {
	t.Parallel()
	s, dir := create(t)
	for _, text := range []string{"one", "two", "three"} {
		_, err := s.Append('e', []byte(text))
		require.NoError(t, err)
	}
	file := filepath.Join(dir, fileName(1))
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	all := []string{"1 e one", "2 e two", "3 e three"}
	ends := []int{0, 20, 40, 62}
	require.Len(t, whole, 62)
	tails := map[string]func(missing int) []byte{
		"nothing": func(int) []byte { return nil },
		"zeros":   func(missing int) []byte { return make([]byte, missing) },
		"ones":    func(missing int) []byte { return bytes.Repeat([]byte{0xff}, missing+30) },
		"text":    func(missing int) []byte { return []byte(strings.Repeat("x", missing)) },
	}
	for name, tail := range tails {
		for cut := range whole {
			require.NoError(t, os.WriteFile(file, append(bytes.Clone(whole[:cut]), tail(len(whole)-cut)...), 0o600))
			kept := 0
			for ends[kept+1] <= cut {
				kept++
			}
			s, found := reopen(t, dir)
			require.Equal(t, strings.Join(all[:kept], "|"), strings.Join(found, "|"), "%s from byte %d", name, cut)
			seq, err := s.Append('e', []byte("next"))
			require.NoError(t, err)
			require.EqualValues(t, kept+1, seq)
			require.NoError(t, s.Close())
			_, found = reopen(t, dir)
			require.Equal(t, fmt.Sprintf("%d e next", kept+1), found[kept])
		}
	}
}

// A flipped bit invalidates its record, and all records after it in the segment.
func TestCorruptRecordsAreNotRead(t *testing.T) {
	t.Parallel()
	s, dir := create(t)
	for _, text := range []string{"one", "two"} {
		_, err := s.Append('e', []byte(text))
		require.NoError(t, err)
	}
	file := filepath.Join(dir, fileName(1))
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	for bit := range len(whole) * 8 {
		broken := bytes.Clone(whole)
		broken[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(file, broken, 0o600))
		if bit < 8*20 {
			_, err = s.Get(1)
			require.Error(t, err, "bit %d", bit)
		}
		_, found := reopen(t, dir)
		require.Equal(t, []string{"1 e one", "2 e two"}[:bit/8/20], append([]string{}, found...), "bit %d", bit)
	}
}

// What follows a torn segment was never synced, so its numbers are used again.
func TestSegmentsAfterATornOneAreDropped(t *testing.T) {
	t.Parallel()
	s, dir := create(t)
	s.maxSegment = 30
	for range 6 {
		_, err := s.Append('e', []byte("0123456789"))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	files, err := segments(dir)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 3, 5}, files)
	require.NoError(t, os.Truncate(filepath.Join(dir, fileName(3)), 30))
	s, found := reopen(t, dir)
	require.Len(t, found, 3)
	seq, err := s.Append('e', nil)
	require.NoError(t, err)
	require.EqualValues(t, 4, seq)
	require.NoError(t, s.Close())
	_, found = reopen(t, dir)
	require.Equal(t, "4 e ", found[3])
}

func TestSkipToContinuesNumbers(t *testing.T) {
	t.Parallel()
	s, dir := create(t)
	for range 3 {
		_, err := s.Append('e', nil)
		require.NoError(t, err)
	}
	require.NoError(t, s.SkipTo(2), "all of it is here")
	require.EqualValues(t, 3, s.Last())
	require.NoError(t, s.SkipTo(7))
	require.EqualValues(t, 7, s.Acked())
	seq, err := s.Append('e', []byte("late"))
	require.NoError(t, err)
	require.EqualValues(t, 8, seq)
	require.NoError(t, s.Close())
	s, found := reopen(t, dir)
	require.Equal(t, []string{"8 e late"}, found)
	require.EqualValues(t, 8, s.Last())
}

// On a full disk no segment can be started, here because its name is taken. Nothing is skipped then.
func TestSkipToCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	s, dir := create(t)
	_, err := s.Append('e', []byte("one"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, fileName(8)), 0o700))
	require.Error(t, s.SkipTo(7))
	require.EqualValues(t, 1, s.Last())
	_, err = s.Get(1)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, fileName(8))))
	require.NoError(t, s.SkipTo(7))
	seq, err := s.Append('e', []byte("late"))
	require.NoError(t, err)
	require.EqualValues(t, 8, seq)
	require.NoError(t, s.Close())
	_, found := reopen(t, dir)
	require.Equal(t, []string{"8 e late"}, found)
}

func TestOtherFilesAreIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"job.json", "x.log", "0000000000000000.log", "1.log"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	s, found := reopen(t, dir)
	require.Empty(t, found)
	require.Zero(t, s.Last())
	_, err := Create(dir)
	require.ErrorIs(t, err, os.ErrExist)
	_, err = Open(filepath.Join(dir, "none"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Records are appended, acknowledged and synced, and the spool is reopened after crashes and power
// cuts, in random order. Synced records are kept in order and unchanged, and no record is made up.
func TestNothingSyncedIsLost(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		dir := filepath.Join(base, fmt.Sprint(run))
		s, err := Create(dir)
		require.NoError(t, err)
		model := map[int64]string{}
		var last, synced, acked int64
		s.maxSegment = 200
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				text := rapid.StringN(0, 60, -1).Draw(t, "text")
				seq, err := s.Append('e', []byte(text))
				require.NoError(t, err)
				require.Equal(t, last+1, seq)
				last, model[seq] = seq, text
			},
			"sync": func(t *rapid.T) {
				require.NoError(t, s.Sync())
				synced = last
			},
			"ack": func(t *rapid.T) {
				if upto := rapid.Int64Range(0, last).Draw(t, "upto"); upto <= synced {
					require.NoError(t, s.Ack(upto))
					acked = max(acked, upto)
				}
			},
			"power cut": func(t *rapid.T) {
				current := s.last()
				size := current.size
				require.NoError(t, s.Close())
				keep := size // unsynced data of the last file may be lost
				for seq := last; seq > max(synced, current.first-1); seq-- {
					keep -= int64(headSize + len(model[seq]))
				}
				if keep < size {
					require.NoError(t, os.Truncate(filepath.Join(dir, fileName(current.first)), rapid.Int64Range(keep, size).Draw(t, "cut")))
				}
				s, err = Open(dir, func(r Record) { require.Equal(t, model[r.Seq], string(r.Data)) })
				require.NoError(t, err)
				s.maxSegment = 200
				require.GreaterOrEqual(t, s.Last(), synced)
				require.LessOrEqual(t, s.Last(), last)
				require.LessOrEqual(t, s.Acked(), acked)
				last = s.Last()
				synced = last
			},
			"": func(t *rapid.T) {
				require.Equal(t, last, s.Last())
				for seq := max(acked, s.Acked()) + 1; seq <= last; seq++ {
					r, err := s.Get(seq)
					require.NoError(t, err)
					require.Equal(t, model[seq], string(r.Data))
				}
			},
		})
		require.NoError(t, s.Remove())
	})
}

func FuzzOpen(f *testing.F) {
	f.Add(encode(Record{1, 'e', []byte("one")}))
	f.Add(append(encode(Record{1, 'e', []byte("one")}), encode(Record{2, 'l', nil})...))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, fileName(1)), content, 0o600))
		var again []byte
		s, err := Open(dir, func(r Record) { again = append(again, encode(r)...) })
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(content, again))
		require.NoError(t, s.Close())
	})
}
