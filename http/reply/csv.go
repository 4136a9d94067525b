package reply

import (
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
		line = append(appendCell(append(line, '"'), cell), '"')
	}
	return append(line, "\r\n"...)
}

// appendCell appends a cell without the quotes around it. A formula begins with one of the characters =,
// +, -, @ or their full-width forms, at the beginning of the cell or after a character at which a
// spreadsheet may split a line, with white space or quotes in between.
func appendCell(line []byte, cell string) []byte {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(cell, " \u00a0\""))
	if strings.ContainsRune("=+-@＝＋－＠\t\r\n", first) {
		line = append(line, '\'')
	}
	copied, afterSeparator := 0, false
	for i, r := range cell {
		switch r {
		case ',', ';', '|', '\t', '\r', '\n':
			afterSeparator = true
		case '=', '+', '-', '@', '＝', '＋', '－', '＠':
			if afterSeparator {
				line = append(append(line, cell[copied:i]...), '\'')
				copied = i
			}
			afterSeparator = false
		case '"':
			line = append(append(line, cell[copied:i]...), '"')
			copied = i
		case ' ', '\f', '\u00a0':
		default:
			afterSeparator = false
		}
	}
	return append(line, cell[copied:]...)
}
