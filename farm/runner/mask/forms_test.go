package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Encodings that are broken into lines are masked on each line.
func TestWrappedEncodingsAreMasked(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("k3y-of-60-bytes!", 4)
	wrap := func(text string, size int, end string) string {
		var b strings.Builder
		for line := range chunks(text, size) {
			b.WriteString(line + end)
		}
		return b.String()
	}
	for before := range 80 {
		whole := []byte(strings.Repeat("x", before) + secret + "yz")
		for name, c := range map[string]struct {
			text string
			size int
		}{
			"base64": {base64.StdEncoding.EncodeToString(whole), 76}, "openssl": {base64.StdEncoding.EncodeToString(whole), 64},
			"url":    {base64.RawURLEncoding.EncodeToString(whole), 76},
			"xxd -p": {hex.EncodeToString(whole), 60}, "narrow": {base64.StdEncoding.EncodeToString(whole), 1},
		} {
			for _, end := range []string{"\n", "\r\n"} {
				text := wrap(c.text, c.size, end)
				got := maskInPieces(t, New(secret), []byte(text))
				require.Equal(t, strings.Count(text, "\n"), strings.Count(got, "\n"), "lines stay lines")
				rest := strings.NewReplacer("\n", "", "\r", "", "*", "").Replace(got)
				require.LessOrEqual(t, len(rest), len(c.text)*(before+2)/len(whole)+4, "%s: only what is before and after is left of %q", name, got)
			}
		}
	}
	// More line ends than an encoder writes end a match, so that nothing is held back for long.
	w := New(secret).NewWriter(&bytes.Buffer{})
	_, err := w.Write([]byte(base64.StdEncoding.EncodeToString([]byte(secret))[:20] + strings.Repeat("\n", 1_000_000)))
	require.NoError(t, err)
	require.Less(t, w.Held(), 100)
}

// naiveWrapped marks what naive search with line ends left out finds.
func naiveWrapped(needles [][]byte, text []byte, hidden []bool) {
	for _, n := range needles {
		for i := range text {
			at, gap := make([]int, 0, len(n)), 0
			for j := i; j < len(text) && len(at) < len(n); j++ {
				switch {
				case (text[j] == '\n' || text[j] == '\r') && len(at) > 0:
					gap++
				case text[j] == n[len(at)]:
					at, gap = append(at, j), 0
				default:
					gap = maxGap + 1
				}
				if gap > maxGap {
					break
				}
			}
			if len(at) == len(n) {
				for _, j := range at {
					hidden[j] = true
				}
			}
		}
	}
}

func TestWrappedMaskMatchesNaiveSearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SliceOfN(rapid.SampledFrom([]byte("abc")), 1, 9)
		plain := rapid.SliceOfN(few, 0, 3).Draw(t, "plain")
		wrapped := rapid.SliceOfN(few, 0, 5).Draw(t, "wrapped")
		text := rapid.SliceOfN(rapid.SampledFrom([]byte("abcd\n\r")), 0, 200).Draw(t, "text")
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		require.Equal(t, naive(plain, wrapped, text), maskInPieces(t, newSet(plain, wrapped), text, cut))
	})
}
