package reply_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/reply"
)

func TestCSV(t *testing.T) {
	for cell, want := range map[string]string{
		"Ada Lind":         `"Ada Lind"`,
		`the "one"`:        `"the ""one"""`,
		"=1+1":             `"'=1+1"`,
		"+49 30":           `"'+49 30"`,
		"-1":               `"'-1"`,
		"@SUM(A1)":         `"'@SUM(A1)"`,
		" =1":              `"' =1"`,
		"＝1":               `"'＝1"`,
		"a,=1":             `"a,'=1"`,
		"a\n=1":            "\"a\n'=1\"",
		"ada@acme.example": `"ada@acme.example"`,
	} {
		require.Equal(t, want+"\r\n", string(reply.AppendCSV(nil, cell)), cell)
	}
	require.Equal(t, "\"a\",\"\"\r\n", string(reply.AppendCSV(nil, "a", "")))
}

func TestCSVRunsNoFormulas(t *testing.T) {
	for cell, want := range map[string]string{
		"": "", "bob@acme.example": "bob@acme.example", "a=b": "a=b", "7": "7", " plain": " plain",
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(1)": "'@SUM(1)", "\t=1": "'\t'=1", "\r=1": "'\r'=1", "\n=1": "'\n'=1",
		"\tplain": "'\tplain", " =1": "' =1", "\"=1": "'\"=1", "＝1+1": "'＝1+1", "'=1": "'=1",
		"a;=1": "a;'=1", "a,+1": "a,'+1", "a\t-1": "a\t'-1", "a|@b": "a|'@b", "a\n=1": "a\n'=1", "a; =1;=2": "a; '=1;'=2", `a;"=1"`: `a;"'=1"`,
		"a;\u00a0＝1": "a;\u00a0'＝1", "a; b=c": "a; b=c", "2026-11-20": "2026-11-20",
	} {
		quoted := `"` + strings.ReplaceAll(want, `"`, `""`) + "\"\r\n"
		require.Equal(t, quoted, string(reply.AppendCSV(nil, cell)), "%q", cell)
	}
	// No part begins like a formula, whatever separator splits the line.
	line := string(reply.AppendCSV(nil, "1", `evil";=cmd`, "a;\"=cmd", "x\t=cmd", "=cmd"))
	require.Equal(t, `"1","evil"";'=cmd","a;""'=cmd","x`+"\t"+`'=cmd","'=cmd"`+"\r\n", line)
	for _, separator := range []string{",", ";", "\t", "|"} {
		for part := range strings.SplitSeq(line, separator) {
			require.NotRegexp(t, `^[\s"]*[=+@-]`, part)
		}
	}
}
