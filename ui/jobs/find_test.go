package jobs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarkMatches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ find, line, want string }{
		"no search":              {"", "a b", "a b"},
		"no match":               {"x", "a b", "a b"},
		"in any case":            {"EXPORT", "export_test: Export", "[export]_test: [Export]"},
		"across colours":         {"acme failed", "x ac\x1b[31mme fai\x1b[0mled.", "x [ac]/[me fai]/[led]."},
		"no pattern":             {"a.c", "abc a.c", "abc [a.c]"},
		"no overlaps":            {"aa", "aaa", "[aa]a"},
		"several in one colour":  {"b", "\x1b[31mabab\x1b[0mb", "a[b]a[b]/[b]"},
		"longer than the search": {"k", "\u212a.", "[\u212a]."}, // the kelvin sign folds to k
	} {
		p := logPart{Find: c.find}
		var out strings.Builder
		class := ""
		for i, s := range p.markMatches(parseSpans(c.line)) {
			if i > 0 && s.class != class {
				out.WriteString("/")
			}
			class = s.class
			if s.found {
				s.text = "[" + s.text + "]"
			}
			out.WriteString(s.text)
		}
		require.Equal(t, c.want, out.String(), name)
	}
}

func TestSelectedMatch(t *testing.T) {
	t.Parallel()
	lines := make([]logLine, maxMatches+1)
	for name, c := range map[string]struct {
		lines         []logLine
		more          bool
		number        int64
		want          string
		before, after string
	}{
		"no matches":     {nil, false, 3, "Not found", "", ""},
		"the first":      {lines[:4], false, 0, "1 of 4", "4", "2"},
		"the last":       {lines[:4], false, 4, "4 of 4", "3", "1"},
		"beyond the end": {lines[:4], false, 9, "4 of 4", "3", "1"},
		"the maximum":    {lines[:maxMatches], false, 2, "2 of 1,000", "1", "3"},
		"too many":       {lines, false, 2, "2 of more than 1,000", "1", "3"},
		"not all read":   {lines[:4], true, 2, "2 of more than 4", "1", "3"},
	} {
		var f logSearch
		f.setMatches(c.lines, c.more, c.number)
		require.Equal(t, c.want, f.summary(), name)
		if c.lines != nil {
			require.Equal(t, c.before, f.neighbour(-1), name)
			require.Equal(t, c.after, f.neighbour(1), name)
		}
	}
	f := logSearch{Text: "a b&c", Lines: []logLine{{Offset: 100}, {Offset: 20000}}, Current: 1}
	p := f.part(2)
	require.Equal(t, "?attempt=2&from=0&find=a+b%26c&at=100", p.query())
	f.Current = 2
	p = f.part(2)
	require.Equal(t, "?attempt=2&from=3616&cut=on&find=a+b%26c&at=20000", p.query())
	require.Equal(t, "&find=a+b%26c&at=20000", p.next().markQuery(), "the next part keeps its marks")
}
