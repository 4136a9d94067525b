package input_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/input"
)

func TestEmail(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("y", 64) + "@" + strings.Repeat("acme.", 37) + "comp"
	require.Len(t, longest, input.MaxEmail)
	for written, want := range map[string]string{
		"yan@acme.example":                "yan@acme.example",
		"Yan@ACME.Example":                "yan@acme.example",
		"yan+work@acme.example":           "yan+work@acme.example",
		"y.o'n/a=b_c-d!@acme.example":     "y.o'n/a=b_c-d!@acme.example",
		"yan@localhost":                   "yan@localhost",
		"yan@my--acme.example":            "yan@my--acme.example",
		longest:                           longest,
		longest + "s":                     "",
		strings.Repeat("y", 65) + "@a.io": "",
		"yan@" + strings.Repeat("a", 63):  "yan@" + strings.Repeat("a", 63),
		"yan@" + strings.Repeat("a", 64):  "",
		strings.Repeat("y", 10_000):       "",

		// A domain in another script is stored in its ASCII form, in whichever form it was
		// given.
		"yan@bücher.example":                 "yan@xn--bcher-kva.example",
		"Yan@Bücher.Example":                 "yan@xn--bcher-kva.example",
		"yan@xn--bcher-kva.example":          "yan@xn--bcher-kva.example",
		"YAN@XN--BCHER-KVA.example":          "yan@xn--bcher-kva.example",
		"yan@straße.example":                 "yan@xn--strae-oqa.example",
		"yan@日本.example":                     "yan@xn--wgv71a.example",
		"yan@עברית.example":                  "yan@xn--5dbqzzl.example",
		"yan@post.bücher.xn--bcher-kva.test": "yan@post.xn--bcher-kva.xn--bcher-kva.test",

		"":                        "",
		"@":                       "",
		"yan":                     "",
		"@acme.example":           "",
		"yan@":                    "",
		"yan@@acme.example":       "",
		"yan@bo@acme.example":     "",
		".yan@acme.example":       "",
		"yan.@acme.example":       "",
		"y..an@acme.example":      "",
		"yan@.acme.example":       "",
		"yan@acme.example.":       "",
		"yan@acme..example":       "",
		"yan@-acme.example":       "",
		"yan@acme-.example":       "",
		"yan@acme_1.example":      "",
		"yan@[192.0.2.7]":         "",
		`"yan lee"@acme.example`:  "",
		" yan@acme.example":       "",
		"yan@acme.example ":       "",
		"yan@acme.example\n":      "",
		"y\tan@acme.example":      "",
		"<yan@acme.example>":      "",
		"Yan <yan@acme.example>":  "",
		"yan@acme.example, b@c.d": "",
		"yan(work)@acme.example":  "",
		"yan@acme.example\x00":    "",
		"y\xffan@acme.example":    "",
		"yan@ac\xffme.example":    "",
		"zoë@acme.example":        "", // others may treat it as zoe, or compose it differently
		"yan@xn--acme-.example":   "", // encodes a label that needs no xn--
		"yan@xn--acme.example":    "",
		"yan@ab--ü.example":       "",
	} {
		address, ok := input.Email(written)
		require.Equal(t, want, address, "%q", written)
		require.Equal(t, want != "", ok, "%q", written)
		typed, _ := input.TypedEmail("\t " + written + "\u00a0\r\n")
		trimmed, _ := input.Email(strings.TrimSpace(written))
		require.Equal(t, trimmed, typed, "%q", written)
	}
}

// Text that looks like an address, or that other case mappings would turn into it, must be
// refused or differ.
func TestLookAlikesDiffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ address, other, kept string }{
		"a capital I with a dot":            {"mia@acme.example", "mİa@acme.example", ""},
		"a capital I with a dot, domain":    {"pat@gitmail.example", "pat@gİtmail.example", ""},
		"an i without a dot":                {"mia@acme.example", "mıa@acme.example", ""},
		"an i without a dot, domain":        {"pat@gitmail.example", "pat@gıtmail.example", "pat@xn--gtmail-p9a.example"},
		"the Kelvin sign":                   {"kim@acme.example", "\u212Aim@acme.example", ""},
		"the Kelvin sign, domain":           {"pat@kraken.example", "pat@\u212Araken.example", ""},
		"the Ångström sign, domain":         {"pat@xn--ngstrm-hua5l.example", "pat@\u212Bngström.example", ""},
		"a long s":                          {"sam@acme.example", "ſam@acme.example", ""},
		"a long s, domain":                  {"pat@sam.example", "pat@ſam.example", ""},
		"full width":                        {"mia@acme.example", "ｍｉａ@acme.example", ""},
		"full width, domain":                {"pat@acme.example", "pat@ａｃｍｅ.example", ""},
		"a full-width at":                   {"mia@acme.example", "mia＠acme.example", ""},
		"a full-width stop":                 {"pat@acme.example", "pat@acme．example", ""},
		"an ideographic stop":               {"pat@acme.example", "pat@acme。example", ""},
		"a ligature, domain":                {"pat@fin.example", "pat@ﬁn.example", ""},
		"a Roman numeral, domain":           {"pat@v.example", "pat@ⅴ.example", ""},
		"a superscript, domain":             {"pat@a2.example", "pat@a².example", ""},
		"mathematical letters, domain":      {"pat@acme.example", "pat@𝐚𝐜𝐦𝐞.example", ""},
		"a combining mark":                  {"zoe@acme.example", "zoe\u0308@acme.example", ""},
		"a combining mark, domain":          {"pat@xn--bcher-kva.example", "pat@bu\u0308cher.example", ""},
		"another case, domain":              {"pat@xn--bcher-kva.example", "pat@BÜCHER.example", ""},
		"a sharp s, domain":                 {"pat@strasse.example", "pat@straße.example", "pat@xn--strae-oqa.example"},
		"a space of no width":               {"mia@acme.example", "mi\u200ba@acme.example", ""},
		"a space of no width, domain":       {"pat@acme.example", "pat@ac\u200bme.example", ""},
		"a soft hyphen, domain":             {"pat@acme.example", "pat@ac\u00adme.example", ""},
		"a joiner":                          {"mia@acme.example", "mi\u200da@acme.example", ""},
		"a joiner, domain":                  {"pat@acme.example", "pat@ac\u200dme.example", ""},
		"a variation selector, domain":      {"pat@acme.example", "pat@acme\ufe0f.example", ""},
		"a byte order mark":                 {"mia@acme.example", "\ufeffmia@acme.example", ""},
		"another direction":                 {"mia@acme.example", "\u202emia@acme.example", ""},
		"Cyrillic":                          {"mia@acme.example", "miа@acme.example", ""},
		"Cyrillic, domain":                  {"pat@gitmail.example", "pat@gіtmail.example", "pat@xn--gtmail-pvf.example"},
		"all Cyrillic, domain":              {"pat@apple.example", "pat@аррӏе.example", "pat@xn--80ak6aa92e.example"},
		"Greek, domain":                     {"pat@acme.example", "pat@αcme.example", "pat@xn--cme-nxc.example"},
		"a Punycode of plain letters":       {"pat@acme.example", "pat@xn--acme-.example", ""},
		"a Punycode of other capitals":      {"pat@xn--bcher-kva.example", "pat@xn--bcher-2pa.example", ""},
		"a Punycode of a combining mark":    {"pat@xn--bcher-kva.example", "pat@xn--bucher-xyd.example", ""},
		"a Punycode that looks like itself": {"pat@gitmail.example", "pat@xn--gtmail-pvf.example", "pat@xn--gtmail-pvf.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, ok := input.Email(c.address)
			require.True(t, ok)
			require.Equal(t, c.address, address)
			other, ok := input.Email(c.other)
			require.Equal(t, c.kept, other)
			require.Equal(t, c.kept != "", ok)
			require.NotEqual(t, address, other)
		})
	}
}

// A normalized address is ASCII and normalizes to itself. Without a domain in another
// script, it results only from itself with other capitals among A–Z.
func FuzzEmail(f *testing.F) {
	for _, s := range []string{
		"yan@acme.example", "Yan@ACME.example", "mİa@acme.example", "pat@gİtmail.example", "pat@\u212Araken.example", "pat@ａcme。example",
		"pat@bücher.example", "pat@xn--bcher-kva.example", "pat@xn--acme-.example", "pat@ac\u00adme.example", "pat@עברית.example", "a\xff@b.c",
		"@", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		address, ok := input.Email(s)
		if !ok {
			require.Empty(t, address)
			return
		}
		require.Regexp(t, `^[!-?A-~]{1,64}@[a-z0-9.-]{1,252}$`, address)
		require.LessOrEqual(t, len(address), input.MaxEmail)
		again, ok := input.Email(address)
		require.True(t, ok, "%q is no address", address)
		require.Equal(t, address, again)
		_, domain, _ := strings.Cut(address, "@")
		if !strings.Contains("."+domain, ".xn--") {
			require.Equal(t, input.Lower(s), address)
		}
	})
}

func TestLower(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"": "", "Acme-1": "acme-1", "AZ@[`{az": "az@[`{az", "İK\u212AÄſ": "İk\u212AÄſ",
	} {
		require.Equal(t, want, input.Lower(s))
	}
}
