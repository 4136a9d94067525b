package auditlog

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecordSetRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var data []byte
	var want []recordSet
	for block := range int64(segmentBlocks) {
		s := recordSet{block: 7*segmentBlocks + block}
		for range random.IntN(2 * maxSparse) {
			s.add(random.IntN(blockSize))
		}
		data, want = append(data, s.encode()...), append(want, s)
	}
	got, err := decodePostings(7, data)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// Decoders must handle any bytes, because anybody with SQL can change rows.
func FuzzDecodePostings(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 127, 31, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Add([]byte{0, 3, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decodePostings(3, data)
		for _, s := range list {
			require.Equal(t, int64(3), s.block/segmentBlocks, err)
		}
	})
}

func FuzzDecodeTexts(f *testing.F) {
	var w textWriter
	for i := range blockSize {
		w.add(recordText{"member.joined", "ann@acme.example", string(rune('a' + i%26))})
	}
	f.Add(w.encode())
	f.Add([]byte{1, 0})
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		texts, err := decodeTexts(data)
		if err != nil {
			require.ErrorIs(t, err, errAuditRow)
			return
		}
		for seq := range int64(blockSize) {
			texts.textOf(seq + 1)
		}
	})
}
