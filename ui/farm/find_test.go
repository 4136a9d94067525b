package farm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarksOfWhatIsLookedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ find, line, want string }{
		"nothing is looked for":  {"", "a b", "a b"},
		"it is not there":        {"x", "a b", "a b"},
		"in any case":            {"EXPORT", "export_test: Export", "[export]_test: [Export]"},
		"across colours":         {"acme failed", "x ac\x1b[31mme fai\x1b[0mled.", "x [ac]/[me fai]/[led]."},
		"no pattern":             {"a.c", "abc a.c", "abc [a.c]"},
		"what does not overlap":  {"aa", "aaa", "[aa]a"},
		"several in one colour":  {"b", "\x1b[31mabab\x1b[0mb", "a[b]a[b]/[b]"},
		"more bytes than it has": {"k", "\u212a.", "[\u212a]."}, // the sign of kelvin is a k
	} {
		p := logPart{Find: c.find}
		var out strings.Builder
		class := ""
		for i, s := range p.marks(spans(c.line)) {
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

func TestWhichOfTheFoundLinesIsShown(t *testing.T) {
	t.Parallel()
	lines := make([]logLine, mostFound+1)
	for name, c := range map[string]struct {
		lines         []logLine
		number        int64
		want          string
		before, after string
	}{
		"none":           {nil, 3, "Not found", "", ""},
		"the first":      {lines[:4], 0, "1 of 4", "4", "2"},
		"the last":       {lines[:4], 4, "4 of 4", "3", "1"},
		"of fewer now":   {lines[:4], 9, "4 of 4", "3", "1"},
		"as many as are": {lines[:mostFound], 2, "2 of 1,000", "1", "3"},
		"too many":       {lines, 2, "2 of more than 1,000", "1", "3"},
	} {
		var f finding
		f.choose(c.lines, c.number)
		require.Equal(t, c.want, f.count(), name)
		if c.lines != nil {
			require.Equal(t, c.before, f.after(-1), name)
			require.Equal(t, c.after, f.after(1), name)
		}
	}
	f := finding{Text: "a b&c", Lines: []logLine{{Offset: 100}, {Offset: 20000}}, Shown: 1}
	p := f.part(2)
	require.Equal(t, "?attempt=2&from=0&find=a+b%26c&at=100", p.query())
	f.Shown = 2
	p = f.part(2)
	require.Equal(t, "?attempt=2&from=3616&cut=on&find=a+b%26c&at=20000", p.query())
	require.Equal(t, "&find=a+b%26c&at=20000", p.next().markQuery(), "marks go on")
}
