package kit

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const formulas = "=+-@＝＋－＠" // begin what a spreadsheet runs

// afterSplit finds the beginning of a formula after what a spreadsheet may split lines at.
var afterSplit = regexp.MustCompile(`([,;|\t\r\n])([\s\x{a0}"]*)([=+\-@＝＋－＠])`)

// CSV returns a line of RFC 4180. Every cell is quoted, and one that a spreadsheet would
// take for a formula, as a whole or in a part, gets an apostrophe before it, as in the
// exports of the service.
func CSV(cells ...string) string {
	var line strings.Builder
	for i, cell := range cells {
		if i > 0 {
			line.WriteByte(',')
		}
		line.WriteByte('"')
		line.WriteString(strings.ReplaceAll(inert(cell), `"`, `""`))
		line.WriteByte('"')
	}
	line.WriteString("\r\n")
	return line.String()
}

func inert(cell string) string {
	if !strings.ContainsAny(cell, formulas+"\t\r\n") {
		return cell
	}
	cell = afterSplit.ReplaceAllString(cell, "$1$2'$3")
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(cell, " \u00a0\""))
	if strings.ContainsRune(formulas+"\t\r\n", first) {
		cell = "'" + cell
	}
	return cell
}
