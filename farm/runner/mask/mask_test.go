package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naive masks text by searching for each needle at each position.
func naive(n needles, text []byte) string {
	hidden := make([]bool, len(text))
	naiveWrapped(n.wrapped, text, hidden)
	naiveDecoded(n.plain, func(text, p []byte) (int, []byte) { return 1, append(text, p[0]) }, text, hidden)
	naiveDecoded(n.url, decodePercent, text, hidden)
	naiveDecoded(n.escaped, decodeBackslash, text, hidden)
	var out strings.Builder
	for i, b := range text {
		switch {
		case !hidden[i]:
			out.WriteByte(b)
		case i == 0 || !hidden[i-1]:
			out.WriteString(Mark)
		}
	}
	return out.String()
}

// naiveDecoded marks what naive search finds in the decoded text.
func naiveDecoded(needles [][]byte, decode decoder, text []byte, hidden []bool) {
	var decoded []byte
	var from, to []int // of each decoded byte in text
	for i := 0; i < len(text); {
		n, part := decode(nil, text[i:])
		if n == 0 {
			n, part = 1, text[i:i+1]
		}
		for _, b := range part {
			decoded, from, to = append(decoded, b), append(from, i), append(to, i+n)
		}
		i += n
	}
	for _, n := range needles {
		for i := 0; i+len(n) <= len(decoded); i++ {
			if bytes.Equal(decoded[i:i+len(n)], n) {
				for j := from[i]; j < to[i+len(n)-1]; j++ {
					hidden[j] = true
				}
			}
		}
	}
}

// maskInPieces masks text, written in pieces that end at cuts.
func maskInPieces(t require.TestingT, s *Set, text []byte, cuts ...int) string {
	var out bytes.Buffer
	w := s.NewWriter(&out)
	from := 0
	for _, c := range append(cuts, len(text)) {
		n, err := w.Write(text[from:c])
		require.NoError(t, err)
		require.Equal(t, c-from, n)
		from = c
	}
	require.NoError(t, w.Close())
	require.Zero(t, w.Held())
	return out.String()
}

func TestMaskMatchesNaiveSearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SliceOfN(rapid.SampledFrom([]byte("abc")), 1, 9) // overlaps, often
		n := needles{plain: rapid.SliceOfN(few, 0, 6).Draw(t, "needles")}
		text := rapid.SliceOfN(rapid.SampledFrom([]byte("abcd")), 0, 200).Draw(t, "text")
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(text)), 0, 8).Draw(t, "cuts")
		for i := range cuts {
			if i > 0 {
				cuts[i] = max(cuts[i], cuts[i-1])
			}
		}
		require.Equal(t, naive(n, text), maskInPieces(t, newSet(n), text, cuts...))
	})
}

func TestOverlappingAndNestedNeedles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ needles, text, want string }{
		{"abcde cd", "abcdx", "ab***x"},
		{"abcde cd", "abcdex", "***x"},
		{"abcd cdef", "xabcdefx", "x***x"},
		{"abcd abcdefgh", "abcdefgx", "***efgx"},
		{"aaaa", "aaa aaaaaa aaa", "aaa *** aaa"},
		{"abab", "abab" + "abab", "***"},
		{"abcd", "abcd abcd", "*** ***"},
	} {
		var list [][]byte
		for n := range strings.FieldsSeq(c.needles) {
			list = append(list, []byte(n))
		}
		for cut := range len(c.text) + 1 {
			require.Equal(t, c.want, maskInPieces(t, newSet(needles{plain: list}), []byte(c.text), cut), "%s cut at %d", c.text, cut)
		}
	}
}

func TestEncodingsOfSecretAreMasked(t *testing.T) {
	t.Parallel()
	const secret = `p&ss "w<rd/ü+1`
	set := New(secret)
	quote := func(text string) string {
		b, err := json.Marshal(text)
		require.NoError(t, err)
		return string(b)
	}
	for _, before := range []string{"", "u", "us", "use", "user"} {
		for _, after := range []string{"", "x", "xy", "xyz"} {
			for name, line := range map[string]string{
				"plain":       before + secret + after,
				"query":       before + url.QueryEscape(secret) + after,
				"path":        before + url.PathEscape(secret) + after,
				"hex":         hex.EncodeToString([]byte(before + secret + after)),
				"HEX":         strings.ToUpper(hex.EncodeToString([]byte(before + secret + after))),
				"json":        quote(before + secret + after),
				"base64":      base64.StdEncoding.EncodeToString([]byte(before + secret + after)),
				"base64 raw":  base64.RawStdEncoding.EncodeToString([]byte(before + secret + after)),
				"base64 url":  base64.URLEncoding.EncodeToString([]byte(before + secret + after)),
				"header user": "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(before+":"+secret+after)),
			} {
				got := maskInPieces(t, set, []byte(line))
				require.Contains(t, got, Mark, name)
				if strings.HasPrefix(name, "base64") || strings.HasPrefix(name, "header") {
					decoded, _ := base64.RawStdEncoding.DecodeString(strings.TrimRight(got[strings.LastIndex(got, Mark)+3:], "="))
					require.Less(t, len(decoded), 6, name)
				}
				require.NotContains(t, got, secret, name)
			}
		}
	}
}

func TestLinesOfSecretAreMasked(t *testing.T) {
	t.Parallel()
	const key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nshort\nhkiG9w0BAQEFAASC\n-----END KEY-----\n"
	set := New(key)
	require.Equal(t, "a "+Mark+"\nb short\nc "+Mark+"\n", maskInPieces(t, set, []byte("a MIIEvQIBADANBgkq\nb short\nc hkiG9w0BAQEFAASC\n")))
	require.Equal(t, Mark, maskInPieces(t, set, []byte(key)))
	require.Equal(t, Mark, maskInPieces(t, set, []byte(strings.ReplaceAll(key, "\n", "\r\n"))))
	require.Equal(t, "["+Mark+"]", maskInPieces(t, New("  token-123\n"), []byte("[token-123]")))
	require.Equal(t, "a "+Mark+" b "+Mark, maskInPieces(t, New("deploy\npass123\n"), []byte("a pass123 b deploy pass123")))
	for _, secret := range []string{"ab\ncd\nef", " ab\r\n\tcd  ef\n"} { // as echo $S prints it
		require.Equal(t, "["+Mark+"]", maskInPieces(t, New(secret), []byte("[ab cd ef]")), "%q", secret)
	}
}

func TestShortSecretsHideNothing(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", "true", "12345", "   ab   "} {
		require.Equal(t, "a true 12345 b", maskInPieces(t, New(s), []byte("a true 12345 b")), "%q", s)
	}
	require.Equal(t, Mark, maskInPieces(t, New("123456"), []byte("123456")))
	// Lines with only brackets of a JSON secret are not masked.
	require.Equal(t, "{\n} "+Mark, maskInPieces(t, New("{\n\"key\":\"value-of-it\"\n}"), []byte("{\n} \"key\":\"value-of-it\"")))
}

func TestPossibleBeginningsAreHeldBack(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := New("secret-word").NewWriter(&out)
	_, err := io.WriteString(w, "say secret-")
	require.NoError(t, err)
	require.Equal(t, "say ", out.String())
	require.Equal(t, 7, w.Held())
	require.NoError(t, w.Close())
	require.Equal(t, "say secret-", out.String())
}

// A secret may have 32 KiB and a job fifty secrets, whose memory comes on top of what the job may
// use. The test is not parallel, since it measures memory.
func TestLongSecretsTakeLittleMemory(t *testing.T) {
	random := make([]byte, 24<<10)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(random); i++ {
		random[i] = byte(r.Uint32())
	}
	text := base64.StdEncoding.EncodeToString(random)
	for name, c := range map[string]struct {
		secret string
		most   uint64
	}{
		"single line": {text, 12 << 20},
		"many lines":  {strings.Join(slices.Collect(chunks(text, 64)), "\n"), 40 << 20},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := New(c.secret)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, c.most, name)
		require.Equal(t, "a "+Mark+" b", maskInPieces(t, s, []byte("a "+c.secret+" b")), name)
	}
}

// chunks splits a text into pieces of a size.
func chunks(text string, size int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for ; len(text) > size; text = text[size:] {
			if !yield(text[:size]) {
				return
			}
		}
		yield(text)
	}
}

// Almost every byte ends an occurrence of a needle that repeats itself, and occurrences of others lie in
// between. The limit is far above what linear time takes, and far below what marking each whole needle does.
func TestPeriodicSecretsTakeLinearTime(t *testing.T) {
	t.Parallel()
	for name, period := range map[string]string{"one byte": "a", "two bytes": "ab", "others between": "..secret-word--"} {
		long := strings.Repeat(period, (32<<10)/len(period))
		w := New(long, "secret-word").NewWriter(io.Discard)
		text := []byte(strings.Repeat(period, (1<<20)/len(period)))
		digits := []byte(hex.EncodeToString(text[:1<<19]))
		begin := time.Now()
		for _, written := range [][]byte{text, digits} {
			_, err := w.Write(written)
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		require.Less(t, time.Since(begin), 30*time.Second, name)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriterErrorIsReturned(t *testing.T) {
	t.Parallel()
	w := New("secret-word").NewWriter(broken{})
	_, err := io.WriteString(w, "hello")
	require.ErrorContains(t, err, "disk full")
	_, err = io.WriteString(w, "")
	require.NoError(t, err)
}

func FuzzMask(f *testing.F) {
	f.Add("secret-word\nother", []byte("a secret-word b"), 4)
	f.Add("aaaaaaaa", []byte("aaaaaaaaaaaa"), 2)
	f.Add("a/\u00fc \U0001f511", []byte(`a%2F%c3%BC+%F0%9f%94%91 \x61\/\u00fc\40\ud83d\uDD11`), 10)
	f.Fuzz(func(t *testing.T, secret string, text []byte, cut int) {
		if len(secret) > 200 || len(text) > 2000 {
			return
		}
		at := max(0, min(cut, len(text)))
		want := naive(needlesOf(secret), text)
		require.Equal(t, want, maskInPieces(t, New(secret), text, at))
		require.Equal(t, want, maskInPieces(t, New(secret), text))
	})
}

func BenchmarkNew(b *testing.B) {
	secret := strings.Repeat("0123456789abcdef", 1<<10) + strings.Repeat("<&>", 5<<10)
	for b.Loop() {
		New(secret)
	}
}

func BenchmarkMask(b *testing.B) {
	w := New("secret-word", "another-secret", strings.Repeat("line of a key\n", 30)).NewWriter(io.Discard)
	line := []byte(strings.Repeat("ok  	svc/events	0.412s a line of a build's output\n", 100))
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		_, _ = w.Write(line)
	}
}
