package input_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"svc/fault"
	"svc/input"
)

// A name that a person chose is stored with its spaces folded, or refused.
func TestName(t *testing.T) {
	t.Parallel()
	length := fault.Field("title", "must have 1 to 100 characters")
	marks := fault.Field("title", "must not have more than 8 marks on one character")
	unseen := fault.Field("title", "must not have control characters, or others that nobody sees")
	for s, want := range map[string]string{
		"A":                           "A",
		"Zoë Brandt":                  "Zoë Brandt",
		" Zoë  \u00a0\u3000 Brandt  ": "Zoë Brandt",
		"Z\u0308oe":                   "Z\u0308oe",
		"👩\u200d💻 Team":               "👩\u200d💻 Team",
		"می\u200cخواهم":               "می\u200cخواهم",
		"Acme\u200d":                  "Acme", // it joins nothing
		"I ❤\ufe0f 👩\U0001f3fd\u200d⚕\ufe0f": "I ❤\ufe0f 👩\U0001f3fd\u200d⚕\ufe0f",
		"1\ufe0f\u20e3 ❤\ufe0f\u200d🔥":       "1\ufe0f\u20e3 ❤\ufe0f\u200d🔥",
		"葛\U000e0100城":                       "葛\U000e0100城",
		"क\u094d\u200dष":                     "क\u094d\u200dष",
		"ཧཱུྂ ဆွှဲ့":                         "ཧཱུྂ ဆွှဲ့", // many marks, in Tibetan and Burmese
		"A" + piled(8) + "B" + piled(8):      "A" + piled(8) + "B" + piled(8),
		strings.Repeat("ü", 100):             strings.Repeat("ü", 100),
		strings.Repeat(" ", 101) + "A":       "A",
	} {
		name, err := input.Name("title", s)
		require.NoError(t, err, "%q", s)
		require.Equal(t, want, name, "%q", s)
	}
	for s, want := range map[string]error{
		strings.Repeat("ü", 101): length,
		"":                       length,
		" \t\n\u2003":            length,
		"\u200c\u200d":           length,
		"A\nB":                   unseen,
		"A\x00B":                 unseen,
		"A\u0085B":               unseen, // another line end
		"A\u2028B":               unseen,
		"A\u202eB":               unseen, // reverses the text after it
		"A\u200fB":               unseen,
		"A\u2066B":               unseen,
		"A\u200bB":               unseen,
		"A\u00adB":               unseen,
		"A\ufeffB":               unseen,
		"\u3164":                 unseen, // a letter without a glyph
		"A\U000e0041B":           unseen, // a tag character
		"A\xffB":                 unseen,
		"\ufe0f\ufe0e":           unseen, // variation selectors of nothing
		"A\ufe0fB":               unseen, // or of a letter
		"A\ufe00B":               unseen,
		"1\ufe0f":                unseen, // or of a digit without keycap
		"❤\ufe0f\ufe0f":          unseen,
		"A\U000e0100B":           unseen,
		"A\u180bB":               unseen,
		"A\u200dB":               unseen, // a joiner of letters that do not join
		"★\u200d★":               unseen,
		"→\ufe00":                unseen,
		"A+\u200c+B":             unseen,
		"👩\u200d\u200d💻":         unseen,
		"\u2800":                 unseen, // a braille pattern without dots
		"A\u2800B":               unseen,
		"A\ufdd0B":               unseen, // noncharacters
		"A\U0010ffffB":           unseen,
		"\U0001d159":             unseen, // a note without head
		"\u0301":                 unseen, // marks on nothing
		"A \u0301B":              unseen,
		"A" + piled(90):          marks,
		"A" + piled(9) + "B":     marks,
		"क" + strings.Repeat("\u094d\u200d", 9) + "ष": marks, // joiners separate no marks
	} {
		name, err := input.Name("title", s)
		require.Equal(t, want, err, "%q", s)
		require.Empty(t, name)
	}
}

// piled returns marks that are drawn on the character before them, one above the other.
func piled(n int) string { return strings.Repeat("\u0301", n) }

func TestCleanText(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"A new disk.":                   "A new disk.",
		" A\tnew\r\n\r\ndisk. ":         "A new disk.",
		"\x1b[31mred":                   "[31mred",
		"A\u202eB\u2066C\u200bD\ufeffE": "ABCDE",
		"A\u2028B\u0085C":               "A B C",
		"می\u200cخواهم":                 "می\u200cخواهم",
		" \n\u202e":                     "",
	} {
		require.Equal(t, want, input.CleanText(s), "%q", s)
	}
}

// What others report about a person is stored as far as possible.
func TestCleanName(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"":                                   "",
		"Zoë Brandt":                         "Zoë Brandt",
		"  Zoë \t\r\n Brandt\u2028":          "Zoë Brandt",
		"V\x00i\na\x07":                      "V i a",
		"\u200fZoë\u202e Brandt\u202c":       "Zoë Brandt",
		"\u2066Zoë\u2069":                    "Zoë",
		"Z\u200bo\u00adë\ufeff":              "Zoë",
		"\u200d👩\u200d💻\u200d":               "👩\u200d💻",
		"\u3164\u202e\u200d":                 "",
		"a\xffb":                             "a\uFFFDb",
		strings.Repeat("é", 500):             strings.Repeat("é", 100),
		strings.Repeat("é", 99) + " abc":     strings.Repeat("é", 99),
		strings.Repeat("\u202e", 500):        "",
		"❤\u200d\ufe0fA":                     "❤\ufe0fA", // the joiner is before a selector, not a character
		"ᠠ\u200c\u180b\u20e3":                "ᠠ\u180b\u20e3",
		"<script>":                           "<script>",
		"A" + piled(90) + "B":                "A" + piled(8) + "B",
		"A" + piled(5) + "\u200b" + piled(5): "A" + piled(8),
		"क" + strings.Repeat("\u094d", 8) + "\u200d\u094dA": "क" + strings.Repeat("\u094d", 8) + "A",
	} {
		require.Equal(t, want, input.CleanName(s), "%q", s)
	}
}

// A cleaned name stays the same when cleaned again, and Name accepts it; so does every
// prefix of it.
func FuzzCleanName(f *testing.F) {
	for _, s := range []string{"Zoë", "a\u202eb", " \u200d ", "\xff", strings.Repeat("é ", 90), "\u3164a", "👩\u200d💻", "tok_svc_",
		"tok_\u200bsvc_0123456789ABCDEFGHIJKLMNOPQRSTUV2ArA0E", "\U000e0041", "\u2028", "1\ufe0f\u20e3", "❤\ufe0f\u200d🔥\u200d",
		"葛\U000e0100", "a\u200d\u0301", "क\u094d\u200dष", "\u2800\ufe0f", strings.Repeat("1\ufe0f\u20e3", 40),
		"❤\u200d\ufe0fA", "A" + piled(9), "क" + strings.Repeat("\u094d\u200d", 9) + "ष", "क" + strings.Repeat("\u094d", 8) + "\u200d\u094dA"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name := input.CleanName(s)
		require.False(t, input.HasToken(name), "%q", name)
		require.Equal(t, name, input.CleanName(name))
		for _, part := range []string{name, input.Truncate(name, 88)} {
			if part == "" {
				continue
			}
			kept, err := input.Name("name", part)
			require.NoError(t, err, "%q", part)
			require.Equal(t, part, kept)
		}
		if asked, err := input.Name("name", s); err == nil {
			require.Equal(t, input.MaskTokens(asked), name, "cleaning alters nothing that is allowed, parts of a token apart")
		}
		agent := input.UserAgent(s)
		require.Equal(t, agent, input.UserAgent(agent))
		require.True(t, utf8.ValidString(agent) && !strings.ContainsAny(agent, "\x00\n\r"), "%q", agent)
	})
}

func TestUserAgent(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"curl/8.14.1":            "curl/8.14.1",
		"a\tb\u202e":             "a b",
		"a\x00b\xff":             "a\uFFFDb\uFFFD",
		strings.Repeat("ü", 300): strings.Repeat("ü", 256),
	} {
		require.Equal(t, want, input.UserAgent(s), "%q", s)
	}
}

func TestPictureURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://a.example/1":          "https://a.example/1",
		"http://a.example/é":           "http://a.example/%C3%A9",
		"https://a.example/\u202egpj":  "https://a.example/%E2%80%AEgpj",
		"https://a.example/?\u202egpj": "",
		"https://me:pw@a.example/1":    "",
		"javascript:alert(1)":          "",
		"data:image/svg+xml,x":         "",
		"//a.example/1":                "",
		"/1":                           "",
		"https:///1":                   "",
		"":                             "",
		"https://a.example/\n":         "",
		"https://a.example/" + strings.Repeat("x", 2000): "",
	} {
		require.Equal(t, want, input.PictureURL(address), "%q", address)
	}
}

func TestBlank(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", " \t\n", "\u200b\u200b", "\u200d", "\u3164", "\u202e \u2066", "\x00", "\ufeff", "\u2800", "\ufe0f", " \u0301",
	} {
		require.True(t, input.Blank(s), "%q", s)
	}
	for _, s := range []string{"a", "\u200ba", "❤️", "مرحبا", "."} {
		require.False(t, input.Blank(s), "%q", s)
	}
}
