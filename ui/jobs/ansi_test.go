package jobs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]styledSpan{
		"plain":                            {{"plain", ""}},
		"\x1b[31mred\x1b[0m after":         {{"red", "red"}, {" after", ""}},
		"\x1b[1;32mok\x1b[m":               {{"ok", "green"}},
		"\x1b[38;5;196mpalette\x1b[39m x":  {{"palette", ""}, {" x", ""}},
		"10%\r50%\r100%\r":                 {{"100%", ""}},
		"\x1b]8;;https://e.example\alink":  {{"link", ""}},
		"\x1b]0;title\x1b\\text":           {{"text", ""}},
		"\x1b[2J\x1b[1;1Hgone":             {{"gone", ""}},
		"a\x00b\x7fc\u009bd\x08":           {{"abcd", ""}},
		"cut off \x1b[3":                   {{"cut off ", ""}},
		"cut off \x1b":                     {{"cut off ", ""}},
		"<script>alert(1)</script> \u202e": {{"<script>alert(1)</script> \u202e", ""}},
	} {
		require.Equal(t, want, parseSpans(line), "%q", line)
	}
	require.LessOrEqual(t, len(parseSpans(strings.Repeat("\x1b[31ma\x1b[32mb", 100_000))), maxSpans+1)
}

func FuzzSpans(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m \x1b]8;;a\ab\r c")
	f.Fuzz(func(t *testing.T, line string) {
		for _, s := range parseSpans(line) {
			require.NotContains(t, s.text, "\x1b")
			require.NotContains(t, s.class, " ")
		}
	})
}
