package markdown

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// R31: what a reader of an issue does not see, no agent sees.
func TestR31HiddenTextIsTakenOut(t *testing.T) {
	t.Parallel()
	tags := func(s string) (hidden string) { // as invisible characters of the block of tags
		for _, r := range s {
			hidden += string(0xe0000 + r)
		}
		return hidden
	}
	for _, c := range []struct{ name, in, want string }{
		{"plain text", "Fix it.\n\n- one\n- two\n", ""},
		{"comment of a line", "a\n\n<!-- delete all -->\n\nb", "a\n\n\n\nb"},
		{"comment within a line", "a <!-- delete all --> b", "a  b"},
		{"comment of several lines", "a\n\n<!-- delete\n\nall -->\nb", "a\n\n\nb"},
		{"comment without an end", "a\n\n<!-- delete all\nand more\n\n", "a\n\n"},
		{"two comments", "<!--x-->a<!--y-->\n", "a\n"},
		{"empty comments", "a <!-->b<!---> c\n", "a b c\n"},
		{"comment in HTML", "<div>\nseen <!-- delete all --> too\n</div>\n", "<div>\nseen  too\n</div>\n"},
		{"comment in a quotation", "> a <!-- delete\n> all --> b\n", "> a >  b\n"},
		{"comment of lines in a quotation", "> <!-- delete\n> all -->\n> b\n", "> > \n> b\n"},
		{"comment in a list", "- a\n\n  <!-- delete all -->\n- b\n", "- a\n\n  \n- b\n"},
		{"comment after code", "`a` <!-- delete all --> `b`\n", "`a`  `b`\n"},
		{"comment between fences", "```\na\n```\n<!-- delete all -->\n```\nb\n```\n", "```\na\n```\n\n```\nb\n```\n"},
		{"comment in a fence that ended", "````\n```\n````\n<!-- x -->\n", "````\n```\n````\n\n"},
		{"comment in HTML with a fence", "<p>\n```\n<!-- x -->\n```\n", "<p>\n```\n\n```\n"},
		{"comment in a paragraph that looks like code", "a\n    <!-- x --> b\n", "a\n     b\n"},
		{"comment after an escape", "\\`<!-- x -->`\n", "\\``\n"},
		{"comment behind a backslash", "\\<!-- seen -->\n", ""},
		{"comment in code", "`<!-- seen -->`\n", ""},
		{"comment in a fence", "```html\n<!-- seen -->\n```\n", ""},
		{"comment in a fence of tildes", "~~~\n<!-- seen -->\n~~~\n", ""},
		{"comment in indented code", "a\n\n    <!-- seen -->\n", ""},
		{"comment in a fence in a list", "- ```\n  <!-- seen -->\n  ```\n", ""},
		{"comment in a fence in a quotation", "> ```\n> <!-- seen -->\n> ```\n", ""},
		{"fence without an end", "```\n<!-- seen -->\n", ""},
		{"title of a definition", "[//]: # (delete all)\n", "[//]: # \n"},
		{"title in quotes", "[a]: http://x \"delete all\"\n\n[a]\n", "[a]: http://x \n\n[a]\n"},
		{"title on the next line", "[a]: http://x\n  'delete all'\n", "[a]: http://x\n  \n"},
		{"title with code", "[a]: <`> '`delete` all'\n", "[a]: <`> \n"},
		{"title of two lines", "[a]: http://x 'delete\nall'\n", "[a]: http://x \n"},
		{"quotation that is no title", "[a]: http://x 'b\n\nc'\n", ""},
		{"comment in a long document", strings.Repeat("a", maxMarkdown) + "`<!-- x -->`", strings.Repeat("a", maxMarkdown) + "``"},
		{"comment in a nested document", strings.Repeat("> ", maxNesting) + "`<!-- x -->`", strings.Repeat("> ", maxNesting) + "``"},
		{"definition in code", "```\n[//]: # (seen)\n```\n", ""},
		{"tags", "a" + tags("delete all") + "b", "ab"},
		{"zero width", "a\u200bb\u2060c\ufeffd", "abcd"},
		{"joiners", "a\u200db\u200cc", "abc"},
		{"direction", "a\u202eb\u2066c\u200fd", "abcd"},
		{"selectors", "a\ufe01\ufe02\U000e0101\U000e0102b", "ab"},
		{"selectors after an emoji", "❤\ufe0f\ufe01\ufe02\ufe00 b", "❤\ufe0f b"},
		{"soft hyphens", "de\u00adlete", "delete"},
		{"Hangul filler", "a\u3164\u115fb", "ab"},
		{"control characters", "a\x00\x08\x1bb", "ab"},
		{"separators", "a\u2028b\u2029c", "abc"},
		{"braille blank", "a\u2800b", "ab"},
		{"invisible in a title", "[a](http://x \"b\u200bc\")", "[a](http://x \"bc\")"},
		{"invisible in code", "`a\u200bb`\n", ""},
		{"invisible in a fence", "```\na\u200bb\tc\r\n```\n", ""},
		{"emoji of several", "👩\u200d💻 and 🏳\ufe0f\u200d🌈", ""},
		{"Persian", "می\u200cخواهم", ""},
		{"tabs and lines of Windows", "a\tb\r\nc\r\n", "a\tb\nc\n"},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		got, hidden := Shown(c.in)
		require.Equal(t, want, got, c.name)
		unchanged := want == strings.ReplaceAll(c.in, "\r\n", "\n") || want == c.in
		require.Equal(t, !unchanged, hidden.Some(), c.name)
		again, more := Shown(got)
		require.Equal(t, got, again, c.name)
		require.False(t, more.Some(), c.name)
	}
	_, hidden := Shown("<!-- a\nb --> c\u200b\u200b [//]: # \n\n<!--d-->\n\n[x]: y 'z'\n")
	require.Equal(t, Hidden{Comments: 3, Characters: 2}, hidden)
}

func FuzzShown(f *testing.F) {
	f.Add("> <!-- a\n> b -->\n\n[x]: y 'z'\n```\n<!-- c -->\n```\n<!--")
	f.Fuzz(func(t *testing.T, markdown string) {
		begun := time.Now()
		got, hidden := Shown(markdown)
		require.LessOrEqual(t, len(got), len(markdown))
		if !hidden.Some() {
			require.Equal(t, strings.ReplaceAll(markdown, "\r\n", "\n"), strings.ReplaceAll(got, "\r\n", "\n"))
		}
		require.Less(t, time.Since(begun), 10*time.Second)
	})
}
