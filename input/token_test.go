package input_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"svc/fault"
	"svc/input"
)

const token = "tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUV2ArA0E"

// No function lets a token pass unchanged.
func TestTokens(t *testing.T) {
	t.Parallel()
	for text, has := range map[string]bool{
		token:                              true,
		"a " + token + ", b":               true,
		"x" + token + "y":                  true,
		token[:len(token)-1]:               true, // its checksum can be computed
		token[:28]:                         true,
		token[:27]:                         false,
		"":                                 false,
		"the prefix is tok_svc_":           false,
		"tok_svc_example, tok_svc_x9Qa":    false,
		"tok_svc_[redacted]":               false,
		"tok_svc_…":                        false,
		"tok_enr_" + token[8:]:             true, // an enrollment token
		"tok_enr_" + token[8:27]:           false,
		"tok\u200b_svc_" + token[8:]:       true, // with characters that nobody sees
		token[:12] + "\u200d" + token[12:]: true,
		token[:12] + "\ufe0f" + token[12:]: true,
		token[:12] + "\x00" + token[12:]:   true,
		token[:12] + "\u2800" + token[12:]: true,
		token[:12] + "\u00a0" + token[12:]: false, // another word
	} {
		require.Equal(t, has, input.HasToken(text), "%q", text)
		require.False(t, input.HasToken(input.MaskTokens(text)), "%q", text)
		require.False(t, input.HasToken(input.CleanName(text)), "%q", text)
		require.False(t, input.HasToken(input.UserAgent(text)), "%q", text)

		_, asName := input.Name("title", "of "+text)
		asText := input.NoTokens(map[string]string{"note": "", "title": text})
		if has {
			refused := fault.Field("title", "must not hold a service token")
			require.Error(t, asName, "%q", text) // of its characters or of the token
			require.Equal(t, refused, asText, "%q", text)
		} else {
			require.NoError(t, asName, "%q", text)
			require.NoError(t, asText, "%q", text)
		}
	}
}

func TestATokenIsNothingElse(t *testing.T) {
	t.Parallel()
	address, ok := input.Email(token + "@acme.example")
	require.False(t, ok)
	require.Empty(t, address)
	_, ok = input.Email("tok_svc_example@acme.example")
	require.True(t, ok)
	require.False(t, input.RequestID(token))
	require.True(t, input.RequestID("tok_svc_"))
	require.False(t, input.Slug.Fits(strings.ToLower(token)))
	require.False(t, input.AccountName.Fits(token))
	require.Empty(t, input.PictureURL("https://a.example/"+token))
	require.Empty(t, input.PictureURL("https://a.example/?t=%74"+token[1:]))
	require.Equal(t, "tok-svc-redacted", input.SlugOf(input.CleanName(token)))
	require.Equal(t, "x tok_svc_[redacted]", input.CleanName("x tok_svc_\u200b"+token[8:]), "also once it is cleaned")
}

func TestURLHasToken(t *testing.T) {
	t.Parallel()
	escaped := strings.ReplaceAll(token, "_", "%5F")
	for address, want := range map[string]bool{
		"/inbox?t=" + token: true, "/" + token: true, "/" + escaped: true, "/?t=" + escaped: true, "/#" + escaped: true,
		"https://" + strings.ToLower(token) + ".example/": true,
		"/inbox?q=100%": false, "/?t=tok_svc_": false, "": false,
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, want, input.URLHasToken(u), address)
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://svc.example.com/path?q#f": "https://svc.example.com",
		"HTTPS://Svc.Example.COM":          "https://svc.example.com",
		"https://svc.example.com:443":      "https://svc.example.com",
		"https://svc.example.com:":         "https://svc.example.com",
		"http://svc.example.com:80/":       "http://svc.example.com",
		"http://svc.example.com:443":       "http://svc.example.com:443",
		"https://svc.example.com:8443":     "https://svc.example.com:8443",
		"http://[2001:DB8::80]":            "http://[2001:db8::80]",
		"http://[::1]:80":                  "http://[::1]",
		"https://\u212Araken.example":      "https://\u212Araken.example",
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, want, input.Origin(u), address)
	}
}

func TestMaskTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "",
		"nothing to hide":           "nothing to hide",
		token:                       "tok_svc_[redacted]",
		"a " + token + ", b":        "a tok_svc_[redacted], b",
		token + " " + token:         "tok_svc_[redacted] tok_svc_[redacted]",
		"x" + token:                 "xtok_svc_[redacted]",
		token[:20] + " was cut off": "tok_svc_[redacted] was cut off",
		"tok_svc_[redacted]":        "tok_svc_[redacted]",
		"the prefix is tok_svc_":    "the prefix is tok_svc_",
	} {
		require.Equal(t, want, input.MaskTokens(text))
	}
}

// Whatever text a job reports, it can be recorded once it is masked: as it is, between letters, and
// within JSON.
func TestT10MaskedTextHasNoToken(t *testing.T) {
	t.Parallel()
	check := func(t require.TestingT, text string) {
		masked := input.MaskTokens(text)
		within, err := json.Marshal(map[string]string{"a": masked, "b": masked})
		require.NoError(t, err)
		for _, s := range []string{masked, "x" + masked + "y", string(within)} {
			require.NoError(t, input.NoTokens(map[string]string{"note": s}), "%q", text)
		}
		require.Equal(t, masked, input.MaskTokens(masked), "%q", text)
	}
	for _, text := range []string{
		token, token + token, token[:28], strings.Repeat(token+"\u200b", 3), "tok_" + token, "tok_svc_" + token, token[:30] + token,
		token[:20] + "\n" + token[20:], "\xff" + token, token[:9] + "\xff" + token[9:], "t\u200bok_svc_" + token[8:],
		strings.Join(strings.Split(token, ""), "\u200d"), strings.Join(strings.Split(token, ""), "\u2060\ufe0f\U000e0041"),
		"tok_svc_\u00ad" + token[8:], "tok_enr_\x01" + token[8:], "tok_svc_tok_svc_tok_svc_" + token, `"` + token + `"`, `\u0074` + token[1:],
		"tok_svc_[redacted]" + token, token[:8] + "\u200b[redacted]" + token[8:], "tok_svc_abc\u200b" + token[8:30],
	} {
		check(t, text)
	}
	piece := rapid.SampledFrom([]string{
		"tok_", "tok", "svc_", "enr_", "_", "tok_svc_", token[8:20], token[20:40], token, "\u200b", "\u200d", "\ufe0f", "\x00", "\xff",
		" ", "é", "[redacted]",
	})
	rapid.Check(t, func(t *rapid.T) { check(t, strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "text"), "")) })
}
