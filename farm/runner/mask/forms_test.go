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

// What encoders of other languages write, literally, so that it is checked where they are not installed.
func TestEncodingsOfOtherLanguagesAreMasked(t *testing.T) {
	t.Parallel()
	const key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	for _, c := range []struct{ name, secret, text string }{
		{"python quote", key, "wJalrXUtnFEMI/K7MDENG%2BbPxRfiCYEXAMPLEKEY"},
		{"git credential-store", key, "wJalrXUtnFEMI%2fK7MDENG%2bbPxRfiCYEXAMPLEKEY"},
		{"php json_encode", key, `wJalrXUtnFEMI\/K7MDENG+bPxRfiCYEXAMPLEKEY`},
		{".net JsonSerializer", key, `wJalrXUtnFEMI/K7MDENG\u002BbPxRfiCYEXAMPLEKEY`},
		{"python json.dumps", "gr\u00fc\u00dfe-geheim", `gr\u00fc\u00dfe-geheim`},
		{"jackson", "gr\u00fc\u00dfe-geheim", `gr\u00FC\u00DFe-geheim`},
		{"python json.dumps of two code units", "\U0001f511-geheim-\U0001f511", `\ud83d\udd11-geheim-\ud83d\udd11`},
		{"encodeURIComponent", "p&ss!(w)rd d'*", "p%26ss!(w)rd%20d'*"},
		{"URLSearchParams", "p&ss!(w)~ d'*", "p%26ss%21%28w%29%7E+d%27*"},
		{"encodeURI", "p&ss/a+b d", "p&ss/a+b%20d"},
		{".net HttpUtility", "p&ss!(w) d/", "p%26ss!(w)+d%2f"},
		{"gson", `a='<b>'&"c"`, `a\u003d\u0027\u003cb\u003e\u0027\u0026\"c\"`},
		{"python repr", "tab\there's \x1b\u00fc", `tab\there\'s \x1b` + "\u00fc"},
		{"python repr of bytes", "tab\there \x1b\u00fc", `tab\there \x1b\xc3\xbc`},
		{"go json of invalid UTF-8", "key \xff\xfe bytes", `key \ufffd\ufffd bytes`},
	} {
		for _, end := range []string{"", "%", "%2", `\`, `\u00`, "."} {
			text := []byte(`[%41\"` + c.text + end)
			for cut := range len(text) + 1 {
				require.Equal(t, `[%41\"`+Mark+end, maskInPieces(t, New(c.secret), text, cut), c.name)
			}
		}
	}
}

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
		n := needles{plain: rapid.SliceOfN(few, 0, 3).Draw(t, "plain"), wrapped: rapid.SliceOfN(few, 0, 5).Draw(t, "wrapped")}
		text := rapid.SliceOfN(rapid.SampledFrom([]byte("abcd\n\r")), 0, 200).Draw(t, "text")
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		require.Equal(t, naive(n, text), maskInPieces(t, newSet(n), text, cut))
	})
}

func TestDecodedMaskMatchesNaiveSearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SliceOfN(rapid.SampledFrom([]byte("ab%\\u\xc3\xbc")), 1, 6)
		n := needles{url: rapid.SliceOfN(few, 0, 4).Draw(t, "url"), escaped: rapid.SliceOfN(few, 0, 4).Draw(t, "escaped")}
		parts := []string{"a", "b", "u", "%61", "%62", "%25", "%c3", "%BC", "%", "%6", `\`, `\u`, `\u00fc`, `\u0061`, `\x62`, `\141`, `\303\274`,
			`\\`, `\ud83d`, `\udd11`, "\u00fc", "\n", "x"}
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 60).Draw(t, "text"), ""))
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		require.Equal(t, naive(n, text), maskInPieces(t, newSet(n), text, cut))
	})
}
