package reply

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// AppendCSV appends a line of CSV (RFC 4180). It quotes every cell, so that no separator within one
// counts, and puts an apostrophe before each part of a cell that a spreadsheet would run as a formula.
// encoding/csv quotes only where CSV requires it.
func AppendCSV(line []byte, cells ...string) []byte {
	for i, cell := range cells {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, '"')
		line = append(line, strings.ReplaceAll(escapeFormulas(cell), `"`, `""`)...)
		line = append(line, '"')
	}
	return append(line, "\r\n"...)
}

const formulaStarts = "=+-@＝＋－＠" // a spreadsheet runs a cell that begins with one of these

// formulaAfterSeparator matches a formula after a character at which a spreadsheet may split a
// line, with white space or quotes in between.
var formulaAfterSeparator = regexp.MustCompile(`([,;|\t\r\n])([\s\x{a0}"]*)([=+\-@＝＋－＠])`)

func escapeFormulas(cell string) string {
	if !strings.ContainsAny(cell, formulaStarts+"\t\r\n") {
		return cell
	}
	cell = formulaAfterSeparator.ReplaceAllString(cell, "$1$2'$3")
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(cell, " \u00a0\""))
	if strings.ContainsRune(formulaStarts+"\t\r\n", first) {
		cell = "'" + cell
	}
	return cell
}
