package jobs

import (
	"strings"
	"unicode/utf8"
)

// A styledSpan is a text in one style.
type styledSpan struct{ text, class string }

const maxSpans = 500 // styled spans of a line; the rest keeps the last style

// parseSpans splits a line of output by its SGR sequences. It removes all other escape
// sequences and control characters.
func parseSpans(line string) (list []styledSpan) {
	var out strings.Builder
	class := ""
	flush := func() {
		if out.Len() > 0 {
			list = append(list, styledSpan{out.String(), class})
			out.Reset()
		}
	}
	line = visibleText(line)
	for len(line) > 0 {
		r, size := utf8.DecodeRuneInString(line)
		switch {
		case r == '\x1b':
			codes, sgr, rest := cutEscape(line)
			line = rest
			if sgr && len(list) < maxSpans {
				flush()
				class = applyCodes(class, codes)
			}
			continue
		case r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r >= 0xa0):
			out.WriteString(line[:size])
		}
		line = line[size:]
	}
	flush()
	return list
}

// visibleText returns the text after the last carriage return, which is what a terminal
// shows of a progress bar.
func visibleText(line string) string {
	line = strings.TrimRight(line, "\r")
	return line[strings.LastIndexByte(line, '\r')+1:]
}

// cutEscape cuts an escape sequence off the beginning of a text. sgr reports whether it is
// an SGR sequence, which sets the style.
func cutEscape(text string) (codes string, sgr bool, rest string) {
	if len(text) < 2 {
		return "", false, ""
	}
	switch text[1] {
	case '[': // up to a letter
		for i := 2; i < len(text); i++ {
			if text[i] >= 0x40 && text[i] <= 0x7e {
				return text[2:i], text[i] == 'm', text[i+1:]
			}
		}
		return "", false, ""
	case ']', 'P', '_', '^', 'X': // up to BEL or ESC \
		for i := 2; i < len(text); i++ {
			if text[i] == '\a' {
				return "", false, text[i+1:]
			}
			if text[i] == '\x1b' && i+1 < len(text) && text[i+1] == '\\' {
				return "", false, text[i+2:]
			}
		}
		return "", false, ""
	}
	_, size := utf8.DecodeRuneInString(text[1:])
	return "", false, text[1+size:]
}

// applyCodes returns the class after SGR codes.
func applyCodes(class, codes string) string {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case "", "0", "39", "22":
			class = ""
		case "1":
			class = "bold"
		case "2", "90", "37":
			class = "dim"
		case "31", "91":
			class = "red"
		case "32", "92":
			class = "green"
		case "33", "93":
			class = "yellow"
		case "34", "94", "36", "96", "35", "95":
			class = "blue"
		case "38", "48": // extended colours have two or four arguments
			if i+1 < len(list) && list[i+1] == "2" {
				i += 3
			}
			i += 2
		}
	}
	return class
}
