package reply_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/fault"
	"svc/http/reply"
)

func TestCheckRequest(t *testing.T) {
	text := func(field string) error { return fault.Field(field, "must be UTF-8 text without NUL") }
	for name, c := range map[string]struct {
		path, query string
		length      int64
		want        error
	}{
		"a plain request":                  {path: "/members", query: "q=zo%C3%AB&limit=7"},
		"no query":                         {path: "/members"},
		"a body as large as it may be":     {path: "/", length: 1 << 20},
		"a body of unknown length":         {path: "/", length: -1},
		"a body that is too large":         {path: "/", length: 1<<20 + 1, want: reply.TooLarge(1 << 20)},
		"a NUL in the path":                {path: "/members/\x00", want: text("path")},
		"a path that is not UTF-8":         {path: "/members/\xff", want: text("path")},
		"a NUL in a parameter":             {path: "/", query: "q=a%00b", want: text("q")},
		"a NUL in a second value":          {path: "/", query: "q=a&q=%00", want: text("q")},
		"a parameter that is not UTF-8":    {path: "/", query: "q=%ff", want: text("q")},
		"a surrogate half":                 {path: "/", query: "q=%ed%a0%80", want: text("q")},
		"a NUL in a parameter's name":      {path: "/", query: "q%00=a", want: text("query")},
		"a name that is not UTF-8":         {path: "/", query: "%ff=a", want: text("query")},
		"an escape that is none":           {path: "/", query: "q=%zz", want: fault.Field("query", "must be percent-encoded")},
		"an escape that ends too soon":     {path: "/", query: "q=%", want: fault.Field("query", "must be percent-encoded")},
		"a semicolon between parameters":   {path: "/", query: "q=a;limit=7", want: fault.Field("query", "must be percent-encoded")},
		"a parameter that has no value":    {path: "/", query: "q"},
		"the same parameter several times": {path: "/", query: "q=a&q=b"},
	} {
		t.Run(name, func(t *testing.T) {
			err := reply.CheckRequest(&http.Request{URL: &url.URL{Path: c.path, RawQuery: c.query}, ContentLength: c.length}, 1<<20)
			require.Equal(t, c.want, err)
		})
	}
}

func TestStorable(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":"b"}`:             true,
		``:                      true,
		`"a\\u0000b"`:           true, // a backslash and five letters
		`"\ud83d\ude00"`:        true,
		`"\n\u00e9\t"`:          true,
		`"\u0000"`:              false,
		`"\\\u0000"`:            false,
		`"\ud800"`:              false,
		`"\ud800x\udc00"`:       false,
		`"\ud800\n"`:            false,
		`"\udc00\ud800"`:        false,
		"\"\xff\"":              false,
		"\"\xed\xa0\x80\"":      false,
		`{"\uD83D\uDE00":"ok"}`: true,
	} {
		require.Equal(t, want, reply.Storable([]byte(text)), text)
	}
}

func TestTooLargeIsA413(t *testing.T) {
	for limit, size := range map[int64]string{1 << 20: "1 MiB", 256 << 20: "256 MiB", 16 << 10: "16 KiB", 1000: "1000 bytes"} {
		f := reply.TooLarge(limit)
		require.Equal(t, http.StatusRequestEntityTooLarge, f.Kind.Status())
		require.Equal(t, "body_too_large", f.Code)
		require.Equal(t, "The body of a request may have "+size+" at most.", f.Message)
	}
}

func TestFewValues(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		few  bool
	}{
		"empty":                    {"", true},
		"a string of commas":       {`{"name":"` + strings.Repeat(`,[{\"`, 10_000) + `"}`, true},
		"the most fields":          {"{" + strings.Repeat(`"f":0,`, 199) + `"f":0}`, true},
		"one field too many":       {"{" + strings.Repeat(`"f":0,`, 200) + `"f":0}`, false},
		"one nested item too many": {`{"list":[` + strings.Repeat("0,", 200) + "0]}", false},
		"many small objects":       {"[" + strings.Repeat(`{"a":1,"b":2},`, 199) + "0]", true},
		"many in nested lists":     {"[" + strings.Repeat("["+strings.Repeat("0,", 150)+"0],", 100) + "0]", false},
		"deeply nested lists":      {strings.Repeat("[", 8192), false},
		"deeply nested objects":    {strings.Repeat(`{"a":`, 100_000), false},
		"more closed than opened":  {"]]}}" + strings.Repeat(",", 199), true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.few, reply.FewValues([]byte(c.text))) })
	}
}
