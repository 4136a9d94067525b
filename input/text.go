package input

import "strings"

// Text returns the storable part of a text of several lines that was written elsewhere: each line with visible
// characters and single spaces, up to most characters in all. Tokens are masked.
func Text(s string, most int) string {
	var lines []string
	for line := range strings.Lines(MaskTokens(strings.ToValidUTF8(s, "�"))) {
		lines = append(lines, strings.TrimRight(toOneLine(line, ' '), blank))
	}
	return Truncate(strings.Trim(strings.Join(lines, "\n"), "\n"), most)
}

// Document returns a text from elsewhere as it is, because every character may matter, but for what cannot be stored: NUL,
// bytes that are no UTF-8, tokens, and what follows after most bytes.
func Document(s string, most int) string {
	s = MaskTokens(strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", ""))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}
